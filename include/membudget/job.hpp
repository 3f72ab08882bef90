#pragma once

/// Part `job`: `resolve` turns a spec into a `Job`: names become rows, defaults are filled in with
/// provenance, divisibility is checked. Below it no input error is left.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "membudget/model.hpp"
#include "membudget/quantity.hpp"
#include "membudget/spec.hpp"
#include "membudget/stack.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// Something the user did not say and that decides a number; printed with every report.
struct Assumption {
    std::string id;      ///< stable: "optimizer.implementation"
    std::string text;
    std::string source;
};

/// Something that the user should know before trusting the number.
struct Warning {
    std::string id;
    std::string text;
};

/// The parts of a step in which stated terms can be live.
enum class Phase { forward, loss, backward, optimizer_step };
inline constexpr std::array kPhases{Phase::forward, Phase::loss, Phase::backward,
                                    Phase::optimizer_step};
[[nodiscard]] std::string_view name_of(Phase phase);

/// A stated term, scaled to the job's shape and divided by its sharding.
struct ResolvedTerm {
    std::string path;
    Bytes lower, point, upper;
    std::array<bool, 4> phases{};   ///< indexed by Phase
    bool sharded = false;           ///< stated whole, divided by `degree`
    std::int64_t degree = 1;
    std::string formula;            ///< with the numbers put in
};

/// Which blocks of a checkpointable section are checkpointed.
struct Checkpointing {
    bool enabled = false;
    std::int64_t every = 1;            ///< block i is checkpointed when i % every == 0
    std::optional<std::int64_t> first; ///< only the first n; absent: all
    bool reentrant = false;
    bool offload = false;              ///< the kept inputs wait in pinned memory of the host
    /// Whether block `i` is checkpointed, if it can be.
    [[nodiscard]] bool covers(std::int64_t i) const { return enabled && i % every == 0 && (!first || i < *first); }
};

/// An update on the host, where states wait beside copies of gradients and parameters
/// [torchao optim/cpu_offload.py CPUOffloadOptimizer].
struct HostUpdate {
    bool gradients = false;        ///< each is let go of on the device once it is on its way to the host
    std::int64_t smallest = 4096;  ///< elements of the smallest tensor that goes there; smaller ones stay whole
};

/// The optimizer as resolved: rows and the types of its slots.
struct JobOptimizer {
    const Optimizer* row = nullptr;
    const OptimizerImplementation* implementation = nullptr;
    std::vector<OptimizerOption> options;
    /// Overrides of slot types, by slot of the row; null: as the row says.
    std::vector<const Dtype*> slot_dtypes;
    const Optimizer* fallback = nullptr;
    const OptimizerImplementation* fallback_implementation = nullptr;
    bool clip = false;
    bool in_backward = false;
    const Dtype* ema = nullptr;  ///< null: none
    std::optional<HostUpdate> host;  ///< absent: the device updates
};

/// Data-parallel degrees: the model is replicated `replicate` times and sharded over `shard` ranks.
struct DataParallel {
    const Sharding* sharding = nullptr;
    std::int64_t replicate = 1;
    std::int64_t shard = 1;
    [[nodiscard]] std::int64_t ranks() const { return replicate * shard; }
};

/// What the device offers.
struct JobDevice {
    std::string name;
    Bytes capacity;
    Bytes reserve;
    /// Where only the memory as sold is known: what a process may find; absent: `capacity` is known.
    std::optional<Bytes> capacity_lower = {}, capacity_upper = {};
    /// What cuBLAS works in on this device, for each thread that multiplies matrices; 0: not known.
    Bytes blas_workspace;
};

/// One training job, complete: no name left to look up, no default left to fill in.
struct Job {
    std::string name;
    std::shared_ptr<const Model> model;      ///< null when the spec states numbers only
    std::shared_ptr<const Model> unadapted;  ///< the same before adapters, freezing and quantization
    std::int64_t anonymous_parameters = 0;   ///< `model.parameters`: a count without an architecture
    Backend backend = Backend::cuda;
    Extents extents;
    std::int64_t micro_batches = 1;          ///< gradient accumulation steps
    std::int64_t global_batch = 1;
    Precision precision;                     ///< a row with the spec's overrides applied
    JobOptimizer optimizer;
    Checkpointing checkpointing;
    std::vector<const Kernel*> kernels;      ///< by OpKind
    DataParallel data;
    bool steady = true;                      ///< optimizer states exist when the step begins
    bool zero_grad_to_none = true;
    bool keep_logits = true;
    bool use_cache = false;                  ///< the outputs hold keys and values
    bool carry_outputs = false;              ///< outputs live until the next forward has returned
    /// The embeddings' output needs a gradient though nothing before it is trained.
    bool input_gradients = false;
    double dropout_override = -1;            ///< negative: as the config says
    double moe_imbalance = 1;                ///< rows of the busiest expert over the mean of all
    AllocatorSettings allocator;
    std::vector<ResolvedTerm> stated;
    std::optional<JobDevice> device;
    std::vector<Assumption> assumptions;
    std::vector<Warning> warnings;

    [[nodiscard]] const Kernel& kernel(OpKind op) const {
        return *kernels[static_cast<std::size_t>(op)];
    }
};

/// What a spec refers to and `resolve` must not read itself: files.
struct ResolveInputs {
    /// Parsed `model.config`, when the spec names one; else null.
    std::shared_ptr<const KeyTree> config;
    std::string config_file;
    /// What the spec's `model` builds, where that is known already; null: it is built.
    std::shared_ptr<const Model> model;
    /// Parsed adapter_config.json, when `training.lora` names one; else null.
    std::shared_ptr<const KeyTree> adapter;
    std::string adapter_file;
    /// Shape of the file itself, before any scenario: to which stated activations refer.
    std::optional<std::int64_t> base_micro_batch_size, base_sequence_length;
};

/// Names -> rows, defaults, checks. All mistakes of meaning in one run.
[[nodiscard]] Result<Job> resolve(const Spec& spec, const ResolveInputs& inputs);

/// The model alone, also where its training step is not simulated. A spec without an architecture is
/// an error.
[[nodiscard]] Result<Model> resolve_model(const Spec& spec, const ResolveInputs& inputs);

/// Whether the model reads sequences of tokens.
[[nodiscard]] bool reads_tokens(const Model& model);

/// A device row: product name and capacity.
struct Device {
    std::string_view name;
    std::string_view doc;
    std::int64_t capacity_bytes = 0;  ///< what a process can use as the driver reports it
    bool nominal = false;             ///< no such report is at hand: the memory as sold
    /// PyTorch's default for the workspace of cuBLAS, per thread and stream; 0: not known.
    std::int64_t blas_workspace_bytes = 0;
    std::string_view source;
};
[[nodiscard]] Table<Device> devices();

}  // namespace membudget
