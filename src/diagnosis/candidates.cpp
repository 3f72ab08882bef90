#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "membudget/diagnosis.hpp"
#include "membudget/step.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMiB = 1'048'576;
/// Requests below this get a segment of a fixed size (2 or 20 MiB), larger ones a multiple of 2 MiB
/// [c10/cuda/CUDACachingAllocator.cpp get_allocation_size].
constexpr std::int64_t kOwnSegment = 10 * kMiB;

/// Whether a tensor of `bytes` is one that prints as `requested`.
bool prints_as(Bytes bytes, const PrintedSize& requested) {
    const auto within = [&](Bytes size) {
        const std::int64_t off = size.count() - requested.bytes.count();
        return 2 * (off < 0 ? -off : off) <= requested.step.count();
    };
    return bytes.count() > 0 && (within(bytes) || within(align_up(bytes, 2 * kMiB)));
}

std::string named(const Dimension& dimension) {
    return fmt::format("{} ({})", dimension.name, group_digits(dimension.extent));
}

/// Factors of a product in the order of likelihood, most telling first.
int rank_of(const Dimension& a, const Dimension& b) {
    const auto is = [&](std::string_view x, std::string_view y) {
        return (a.name == x && b.name == y) || (a.name == y && b.name == x);
    };
    if (is("tokens", "vocabulary")) return 0;
    if (is("vocabulary", "hidden")) return 1;
    return a.name == "tokens" || b.name == "tokens" ? 2 : 3;
}

class Search {
public:
    Search(const PrintedSize& requested, const Dimensions& dimensions)
        : requested_(requested), dimensions_(dimensions) {}

    std::vector<Candidate> run() {
        for (const NamedTensor& tensor : dimensions_.tensors)
            if (prints_as(tensor.bytes, requested_)) add(-1, tensor.name, tensor.bytes);
        const auto& named_ones = dimensions_.named;
        for (std::size_t i = 0; i < named_ones.size(); ++i)
            for (std::size_t j = i; j < named_ones.size(); ++j) {
                if (i == j && named_ones[i].name != "hidden") continue;
                product(rank_of(named_ones[i], named_ones[j]), {&named_ones[i], &named_ones[j]});
            }
        const Dimension *batch = find("batch"), *heads = find("heads"),
                        *sequence = find("sequence");
        if (batch != nullptr && heads != nullptr && sequence != nullptr)
            product(1, {batch, heads, sequence, sequence});
        std::stable_sort(found_.begin(), found_.end(),
                         [](const Ranked& a, const Ranked& b) { return a.rank < b.rank; });
        std::vector<Candidate> out;
        constexpr std::size_t kMost = 6;
        for (Ranked& one : found_) {
            if (out.size() == kMost) break;
            out.push_back(std::move(one.candidate));
        }
        return out;
    }

private:
    struct Ranked {
        int rank;
        Candidate candidate;
    };

    const Dimension* find(std::string_view name) const {
        for (const Dimension& dimension : dimensions_.named)
            if (dimension.name == name) return &dimension;
        return nullptr;
    }

    void product(int rank, std::initializer_list<const Dimension*> factors) {
        std::int64_t elements = 1;
        std::string text;
        for (const Dimension* factor : factors) {
            if (factor->extent <= 0 || __builtin_mul_overflow(elements, factor->extent, &elements))
                return;
            text += (text.empty() ? "" : " x ") + named(*factor);
        }
        for (const std::int64_t width : {4, 2, 1, 8}) {
            std::int64_t bytes = 0;
            if (__builtin_mul_overflow(elements, width, &bytes) || bytes > kLargestBytes) continue;
            if (prints_as(Bytes(bytes), requested_))
                add(rank, fmt::format("{} x {} B", text, width), Bytes(bytes));
        }
    }

    void add(int rank, std::string text, Bytes bytes) {
        found_.push_back({rank, {std::move(text), bytes}});
    }

    const PrintedSize& requested_;
    const Dimensions& dimensions_;
    std::vector<Ranked> found_;
};

void add_lengths(Dimensions& out, const Job& job) {
    const auto add = [&](const char* name, std::int64_t extent) {
        if (extent > 1) out.named.push_back({name, extent});
    };
    add("tokens", job.extents.batch * job.extents.sequence);
    if (job.extents.batch > 1) add("sequence", job.extents.sequence);
    else if (job.extents.sequence > 1) out.named.push_back({"sequence", job.extents.sequence});
    out.named.push_back({"batch", job.extents.batch});
    if (job.model == nullptr) return;
    const ModelFacts& facts = job.model->facts;
    add("vocabulary", facts.vocab_size);
    add("hidden", facts.hidden_size);
    add("intermediate", facts.intermediate_size);
    add("heads", facts.heads);
}

/// Each distinct size of each tensor of the step; copies in other layers have the same.
void add_tensors(Dimensions& out, const Job& job) {
    const Step step = simulate_step(job, Bound::point, Detail::tensors);
    std::vector<std::tuple<TermId, std::int64_t>> sizes;
    const auto visit = [&](auto&& self, const StepNode& node) -> void {
        for (const Event& event : node.events)
            if (event.bytes >= kMiB) sizes.emplace_back(event.term, event.bytes);
        for (const StepNode& child : node.children) self(self, child);
    };
    visit(visit, step.root);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (const auto& [term, bytes] : sizes) {
        const std::string& path = step.terms.path(term);
        const std::size_t first = path.find('\n');
        const std::size_t second = first == std::string::npos ? first : path.find('\n', first + 1);
        const std::string booked = path.substr(0, first);
        if (second == std::string::npos) {
            out.tensors.push_back({booked, Bytes(bytes)});
            continue;
        }
        const std::string op = path.substr(first + 1, second - first - 1);
        const std::string what = path.substr(second + 1);
        out.tensors.push_back({fmt::format("{}{}{} ({})", op, op.empty() || what.empty() ? "" : " ",
                                           what, booked),
                               Bytes(bytes)});
    }
}

}  // namespace

Dimensions dimensions_of(const Job& job) {
    Dimensions out;
    add_lengths(out, job);
    add_tensors(out, job);
    return out;
}

std::vector<Candidate> candidates_for(const PrintedSize& requested, const Dimensions& dimensions) {
    // A fixed segment, or a size that every candidate of a coarse print would match.
    if (requested.bytes.count() <= 2 * kOwnSegment) return {};
    return Search(requested, dimensions).run();
}

}  // namespace membudget
