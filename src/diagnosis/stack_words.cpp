#include "diagnosis/stack_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "membudget/spec.hpp"

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
    // Hooks of saved tensors run in backward; in its thread they are the outermost Python frame.
    {"unpack_hook", false, StackPhase::backward},
    {"torch/nn/utils/clip_grad.py", true, StackPhase::optimizer_step},
    {"torch/optim/", true, StackPhase::optimizer_step},
    {"_multi_tensor_", false, StackPhase::optimizer_step},
    {"_single_tensor_", false, StackPhase::optimizer_step},
};

constexpr TellingFrame kTelling[] = {
    // torch/csrc/autograd/functions/accumulate_grad.cpp, and its templates of the header
    {"torch::autograd::AccumulateGrad", "", "gradients", "kept by autograd's AccumulateGrad"},
    // torch/optim/adamw.py and its like; bitsandbytes/optim/optimizer.py; torchao/optim/adam.py
    {"_init_group", "torch/optim/", "optimizer_states", "made by the optimizer's _init_group"},
    {"init_state", "bitsandbytes/optim/", "optimizer_states", "made by the optimizer's init_state"},
    {"get_state_buffer", "bitsandbytes/optim/", "optimizer_states", "made by the optimizer's init_state"},
    {"_new_buffer", "torchao/optim/", "optimizer_states", "made by the optimizer's _new_buffer"},
    // torch/nn/modules/module.py: what .to(), .cuda() and .half() go through
    {"_apply", "torch/nn/modules/module.py", "parameters", "moved by Module._apply"},
    {"__init__", "torch/nn/modules/", "parameters", "made by a constructor of torch.nn"},
    // torch/distributed/fsdp/_flat_param.py; _fully_shard/_fsdp_collectives.py and _fsdp_param.py
    {"_alloc_padded_unsharded_flat_param", "torch/distributed/fsdp/", "communication", "gathered by FSDP"},
    {"_all_gather_flat_param", "torch/distributed/fsdp/", "communication", "gathered by FSDP"},
    {"foreach_all_gather", "torch/distributed/fsdp/", "communication", "gathered by FSDP"},
    {"alloc_all_gather_outputs", "torch/distributed/fsdp/", "communication", "gathered by FSDP"},
    {"foreach_reduce", "torch/distributed/fsdp/", "communication", "reduced by FSDP"},
    // torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp
    {"_ddp_init_helper", "torch/nn/parallel/", "communication", "buckets of DDP"},
    {"c10d::Reducer::initialize_buckets", "", "communication", "buckets of DDP"},
    {"", "torch/distributed/distributed_c10d.py", "communication", "made by a collective"},
    // aten/src/ATen/cuda/CublasHandlePool.cpp
    {"at::cuda::getNewWorkspace", "", "workspace", "workspace of cuBLAS"},
    {"getCUDABlasLtWorkspace", "", "workspace", "workspace of cuBLAS"},
};

/// A snapshot that was written from an estimate (job_trace.cpp) names the term, and above it the phase.
constexpr std::string_view kOfEstimate = "membudget";
constexpr auto kEstimated = [] {
    std::array<TellingFrame, kTermGroups.size()> rows{};
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = {kTermGroups[i], kOfEstimate, kTermGroups[i], "said by the estimate"};
    return rows;
}();

/// What checkpointing makes again in backward (torch/utils/checkpoint.py).
constexpr TellingFrame kRecomputed{"", "torch/utils/checkpoint.py", "activations",
                                   "made again by checkpointing"};
constexpr std::string_view kRecomputing[] = {"unpack_hook", "recompute_fn", "backward"};

/// `part` in `path`, whichever way its slashes lean.
bool has_path(std::string_view path, std::string_view part) {
    const auto at = std::search(path.begin(), path.end(), part.begin(), part.end(),
                                [](char a, char b) { return (a == '\\' ? '/' : a) == b; });
    return at != path.end();
}

bool is_of_framework(std::string_view file) {
    return has_path(file, "/torch/") || has_path(file, "site-packages") ||
           has_path(file, "dist-packages") || file.starts_with('<');
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

StackWords::StackWords(const TraceStacks& stacks)
    : stacks_(stacks), phases_(stacks.size(), kUnknown), told_(stacks.size()) {
    // A look at the first stacks: a trace records C++ frames of all or of none.
    constexpr StackId kEnough = 256;
    for (StackId stack = 1; stack < stacks.size() && stack < kEnough; ++stack)
        for (const std::uint32_t index : stacks.frames_of(stack)) {
            const TraceFrame& frame = stacks.frame_at(index);
            only_python_ = stacks.text_of(frame.file).ends_with(".py") || only_python_;
            if (stacks.text_of(frame.function).find("::") == std::string_view::npos) continue;
            only_python_ = false;
            return;
        }
}

StackPhase StackWords::phase_of(StackId stack) {
    if (stack >= phases_.size()) return StackPhase::none;
    std::uint8_t& known = phases_[stack];
    if (known != kUnknown) return static_cast<StackPhase>(known);
    StackPhase phase = StackPhase::none;
    bool of_estimate = false;
    for (const std::uint32_t index : stacks_.frames_of(stack)) {
        phase = std::max(phase, StackPhase::other);
        const TraceFrame& frame = stacks_.frame_at(index);
        const std::string_view file = stacks_.text_of(frame.file);
        const std::string_view function = stacks_.text_of(frame.function);
        if (of_estimate) {
            for (const StackPhase one : {StackPhase::forward, StackPhase::loss, StackPhase::backward,
                                         StackPhase::optimizer_step})
                if (file == name_of(one)) phase = one;
            break;
        }
        of_estimate = file == kOfEstimate;
        for (const Word& word : kWords)
            if (word.in_file ? has_path(file, word.text)
                             : function.starts_with(word.text))
                phase = std::max(phase, word.phase);
    }
    known = static_cast<std::uint8_t>(phase);
    return phase;
}

StackPhase StackWords::phase_after(StackPhase before, StackId stack) {
    const StackPhase phase = phase_of(stack);
    const bool in_engine = phase == StackPhase::none && only_python_ &&
                           before >= StackPhase::forward && before <= StackPhase::backward;
    return in_engine ? StackPhase::backward : phase;
}

const TellingFrame* StackWords::find_telling(StackId stack) const {
    bool in_engine = false;
    for (const std::uint32_t index : stacks_.frames_of(stack)) {
        const TraceFrame& frame = stacks_.frame_at(index);
        const std::string_view file = stacks_.text_of(frame.file);
        const std::string_view function = stacks_.text_of(frame.function);
        for (const TellingFrame& telling : kTelling)
            if (function.find(telling.function) != std::string_view::npos &&
                (telling.file.empty() || has_path(file, telling.file)))
                return &telling;
        if (file == kOfEstimate)
            for (const TellingFrame& telling : kEstimated)
                if (first_component(function) == telling.function) return &telling;
        // Innermost first: an engine within the checkpoint runs the backward of what was made again.
        in_engine = in_engine || function == "_engine_run_backward";
        if (!in_engine && has_path(file, kRecomputed.file))
            for (const std::string_view name : kRecomputing)
                if (function == name) return &kRecomputed;
    }
    return nullptr;
}

const TellingFrame* StackWords::told_by(StackId stack) {
    if (stack >= told_.size()) return nullptr;
    std::optional<const TellingFrame*>& known = told_[stack];
    if (!known) known = find_telling(stack);
    return *known;
}

bool StackWords::in_zero_grad(StackId stack) const {
    if (stack >= stacks_.size()) return false;
    return std::ranges::any_of(stacks_.frames_of(stack), [&](std::uint32_t index) {
        return stacks_.text_of(stacks_.frame_at(index).function) == "zero_grad";
    });
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
