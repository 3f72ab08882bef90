#include "diagnosis/stack_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace membudget::diagnosis {
namespace {

/// Words of files and functions, by phase. A later phase wins: a recomputed forward is backward's.
struct Word {
    std::string_view text;
    bool in_file;   ///< else it is the function's name, or its beginning
    StackPhase phase;
};
constexpr Word kWords[] = {
    {"forward", false, StackPhase::forward},
    {"_call_impl", false, StackPhase::forward},
    {"cross_entropy", false, StackPhase::loss},
    {"nll_loss", false, StackPhase::loss},
    {"backward", false, StackPhase::backward},
    {"_engine_run_backward", false, StackPhase::backward},
    {"torch::autograd::Engine", false, StackPhase::backward},
    {"torch/autograd/graph.py", true, StackPhase::backward},
    {"torch/optim/", true, StackPhase::optimizer_step},
    {"_multi_tensor_", false, StackPhase::optimizer_step},
    {"_single_tensor_", false, StackPhase::optimizer_step},
};

bool is_of_framework(std::string_view file) {
    return file.find("/torch/") != std::string_view::npos ||
           file.find("site-packages") != std::string_view::npos ||
           file.find("dist-packages") != std::string_view::npos || file.starts_with('<');
}

std::string_view base_name(std::string_view file) {
    const std::size_t slash = file.find_last_of("/\\");
    return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

}  // namespace

std::string_view name_of(StackPhase phase) {
    constexpr std::string_view kNames[] = {"no stack", "elsewhere", "forward",
                                           "loss",     "backward",  "optimizer_step"};
    return kNames[static_cast<std::size_t>(phase)];
}

StackPhase StackWords::phase_of(StackId stack) {
    if (stack >= phases_.size()) return StackPhase::none;
    std::uint8_t& known = phases_[stack];
    if (known != kUnknown) return static_cast<StackPhase>(known);
    StackPhase phase = StackPhase::none;
    for (const std::uint32_t index : stacks_.frames_of(stack)) {
        phase = std::max(phase, StackPhase::other);
        const TraceFrame& frame = stacks_.frame_at(index);
        const std::string_view file = stacks_.text_of(frame.file);
        const std::string_view function = stacks_.text_of(frame.function);
        for (const Word& word : kWords)
            if (word.in_file ? file.find(word.text) != std::string_view::npos
                             : function.starts_with(word.text))
                phase = std::max(phase, word.phase);
    }
    known = static_cast<std::uint8_t>(phase);
    return phase;
}

std::string StackWords::place_of(StackId stack) const {
    const TraceFrame* chosen = nullptr;
    for (const std::uint32_t index : stacks_.frames_of(stack)) {
        const TraceFrame& frame = stacks_.frame_at(index);
        const std::string_view file = stacks_.text_of(frame.file);
        if (frame.line == 0 || file == "??" || file.empty()) continue;
        if (chosen == nullptr) chosen = &frame;
        if (is_of_framework(file)) continue;
        chosen = &frame;
        break;
    }
    if (chosen == nullptr) return "(no Python stack)";
    return fmt::format("{}:{} {}", base_name(stacks_.text_of(chosen->file)), chosen->line,
                       stacks_.text_of(chosen->function));
}

}  // namespace membudget::diagnosis
