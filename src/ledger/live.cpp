#include "ledger/live.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace membudget {

std::vector<LiveTensor> live_at_peak(const Job& job) {
    const Step step = simulate_step(job, Bound::point, Detail::tensors);
    std::vector<LiveTensor> out;
    for (std::size_t i = 0; i < step.profile.at_peak.size(); ++i) {
        const std::int64_t bytes = step.profile.at_peak[i];
        if (bytes == 0) continue;
        const std::string& path = step.terms.path(static_cast<TermId>(i));
        LiveTensor tensor;
        const std::size_t first = path.find('\n');
        tensor.term = path.substr(0, first);
        if (first != std::string::npos) {
            const std::size_t second = path.find('\n', first + 1);
            tensor.op = path.substr(first + 1, second - first - 1);
            tensor.what = path.substr(second + 1);
        }
        tensor.bytes = Bytes(bytes);
        out.push_back(std::move(tensor));
    }
    std::stable_sort(out.begin(), out.end(), [](const LiveTensor& a, const LiveTensor& b) {
        if (a.bytes != b.bytes) return a.bytes > b.bytes;
        return std::tie(a.term, a.op, a.what) < std::tie(b.term, b.op, b.what);
    });
    return out;
}

LiveFormulas::LiveFormulas(const Job& job, const Step& step) : step_(step), job_(job) {
    if (job.model != nullptr) live_ = live_at_peak(job);
}

std::string LiveFormulas::of(TermId term) const {
    if (term == kRounding) return "each tensor rounded up to a multiple of 512 B";
    const std::string& path = step_.terms.path(term);
    std::string text;
    std::size_t named = 0;
    std::size_t count = 0;
    constexpr std::size_t kNamed = 3;
    for (const LiveTensor& tensor : live_) {
        if (tensor.term != path) continue;
        ++count;
        if (named == kNamed) continue;
        ++named;
        text += fmt::format("{}{}{}{}: {}", text.empty() ? "" : " + ", tensor.op,
                            tensor.op.empty() ? "" : " ", tensor.what,
                            format_bytes(tensor.bytes, Units::exact));
    }
    if (count > named) text += fmt::format(" + {} smaller", count - named);
    return text.empty() ? "not live at the peak" : text;
}

std::string LiveFormulas::source_of(TermId term) const {
    if (term == kRounding) return "c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize";
    // The kernels of the ops that book under this term.
    const std::string& path = step_.terms.path(term);
    if (job_.model == nullptr) return "";
    std::vector<std::string> sources;
    for (const Block& block : job_.model->blocks)
        for (const Op& op : block.ops) {
            const bool mine = op.term == path || path == "temporaries/backward" ||
                              path == "temporaries/recompute" || path == "activations/checkpoint_inputs";
            if (!mine) continue;
            const Kernel& kernel = job_.kernel(op.kind);
            std::string source = fmt::format("{} '{}': {}", name_of(op.kind), kernel.name, kernel.source);
            if (std::find(sources.begin(), sources.end(), source) == sources.end())
                sources.push_back(std::move(source));
        }
    constexpr std::size_t kShown = 4;
    if (sources.size() > kShown) sources.resize(kShown);
    return fmt::format("{}", fmt::join(sources, "; "));
}

}  // namespace membudget
