#pragma once

/// Part `stack`: *how* a job is computed, as tables of rows: precision schemes, optimizers, kernels,
/// sharding. Each row cites its source. Knows nothing of files or text.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "membudget/autograd.hpp"
#include "membudget/model.hpp"
#include "membudget/quantity.hpp"
#include "membudget/support.hpp"

namespace membudget {

// --- shape ---------------------------------------------------------------------------------------

/// How many rows the tensors of a micro-batch have.
struct Extents {
    std::int64_t batch = 1;            ///< sequences or images of the micro-batch
    std::int64_t sequence = 1;         ///< tokens per sequence
    std::int64_t target_sequence = 1;  ///< tokens per target sequence (encoder-decoder)
    std::int64_t patches = 0;          ///< image patches of the micro-batch
    bool padding_mask = false;         ///< a batch with padding: masks are materialised

    [[nodiscard]] std::int64_t rows(Rows rows) const;
};

// --- precision -----------------------------------------------------------------------------------

/// In which types a job holds and computes things.
struct Precision {
    std::string_view name;
    std::string_view doc;
    const Dtype* parameters = nullptr;      ///< the weights that forward uses
    const Dtype* gradients = nullptr;       ///< accumulated gradients; null: as the parameters
    const Dtype* master_weights = nullptr;  ///< a copy that the optimizer updates; null: none
    const Dtype* autocast = nullptr;        ///< autocast type of matrix products; null: no autocast
    const Dtype* states = nullptr;          ///< optimizer states; null: as the optimizer's row says
    /// Gradients live in one buffer for the whole run (Megatron), not from backward to zero_grad.
    bool gradient_buffer = false;
    /// At the optimizer step each gradient is copied to this type for the step; null: no copy.
    const Dtype* gradient_copy = nullptr;
    std::string_view source;
};
[[nodiscard]] Table<Precision> precisions();

// --- optimizers ----------------------------------------------------------------------------------

/// Options of an optimizer row, resolved: "rank" -> 128.
struct OptimizerOption {
    std::string_view name;
    std::int64_t value = 0;  ///< the default in a row; the chosen value in a job
    std::string_view doc;
};
using OptimizerOptions = std::span<const OptimizerOption>;
[[nodiscard]] std::int64_t option(OptimizerOptions options, std::string_view name);

/// Bytes of a state slot for one parameter of `shape`, in `type` (the slot's, or the parameter's).
using StateSize = Bytes (*)(std::span<const std::int64_t> shape, const Dtype& type,
                            OptimizerOptions options);

/// A tensor that an optimizer keeps per parameter.
struct StateSlot {
    std::string_view name;        ///< ledger path: optimizer_states/NAME
    const Dtype* dtype = nullptr; ///< null: the type of the tensor that the optimizer updates
    StateSize size = nullptr;
    std::string_view rule;        ///< the size rule in words, for formulas: "numel x dtype"
};

/// One implementation's temporaries during `step()`.
struct OptimizerImplementation {
    std::string_view name;                   ///< "for-loop", "foreach", "fused"
    /// Copies of the whole list of updated tensors that live at once (foreach); in tenths, so that
    /// 10 is one copy. Steady state / first step.
    int list_copies_tenths = 0;
    int list_copies_tenths_first = 0;
    /// Scratch while one tensor is updated, live one tensor at a time; null: none.
    StateSize tensor_scratch = nullptr;
    std::string_view source;
};

struct Optimizer {
    std::string_view name;
    std::string_view doc;
    std::span<const StateSlot> slots;
    std::span<const OptimizerImplementation> implementations;  ///< the first is the default on CUDA
    std::span<const OptimizerOption> options;
    /// States exist from construction on; else the first step creates them.
    bool states_at_construction = false;
    /// Gradients are consumed as backward makes them; there is never more than one.
    bool fused_in_backward = false;
    /// States live in unified memory, outside the caching allocator.
    bool paged = false;
    /// True when the row updates a parameter of this component and shape; null: all of them.
    bool (*handles)(Component component, std::span<const std::int64_t> shape) = nullptr;
    std::string_view fallback;   ///< row for the parameters that it does not handle
    std::string_view source;
};
[[nodiscard]] Table<Optimizer> optimizers();

// --- sharding ------------------------------------------------------------------------------------

/// How a tensor is cut into equal shards, and so what padding it needs.
enum class Partition {
    whole,       ///< replicated
    flat,        ///< all tensors of a group in one flat buffer, padded to a multiple
    per_tensor,  ///< each tensor padded along its first dimension (FSDP2)
};

/// Data-parallel sharding of model states.
struct Sharding {
    std::string_view name;
    std::string_view doc;
    Partition parameters = Partition::whole;
    Partition gradients = Partition::whole;
    Partition states = Partition::whole;  ///< optimizer states and master weights
    /// Flat buffers are padded to a multiple of `flat_alignment x degree` elements.
    std::int64_t flat_alignment = 1;
    /// Extra copies of gradients in buckets, in bytes of the gradient type (DDP without bucket views).
    bool gradient_buckets = false;
    /// Parameters are gathered per block for its forward and backward.
    bool gathers_parameters = false;
    /// Needs more than one rank to differ from `none`.
    std::string_view source;
};
[[nodiscard]] Table<Sharding> shardings();

// --- kernels -------------------------------------------------------------------------------------

class KernelCall;

/// An implementation of an op: which tensors it writes, what it saves, what it keeps in fp32.
struct Kernel {
    std::string_view name;     ///< "flash"; unique within an op
    OpKind op = OpKind::add;
    std::string_view doc;
    void (*run)(KernelCall& call) = nullptr;
    std::string_view source;
    /// What the framework computes as soon as the op's first input exists, before the others do
    /// (`act(gate(x)) * up(x)`); its result is `KernelCall::early`. Null: nothing.
    Ref (*first)(KernelCall& call) = nullptr;
};
[[nodiscard]] std::span<const Kernel> kernels();
/// The kernel `name` of `op`, or null.
[[nodiscard]] const Kernel* find_kernel(OpKind op, std::string_view name);
/// Names of the kernels of `op`, the default first.
[[nodiscard]] std::vector<std::string_view> kernel_names(OpKind op);

/// One op being run: what a kernel may see and do. The inputs' names live until the op has run, as
/// the arguments of a Python call do.
class KernelCall {
public:
    KernelCall(Tape& on, const Op& what, const Block& in, const Extents& shape,
               std::vector<Ref>& tensors, std::span<const std::size_t> leaves,
               std::vector<Ref>& held)
        : tape(on), op(what), block(in), extents(shape), tensors_(tensors), leaves_(leaves),
          held_(held) {}

    Tape& tape;
    const Op& op;
    const Block& block;
    const Extents& extents;
    Ref early;                ///< what `Kernel::first` returned
    double dropout = -1;      ///< overrides the op's probability when not negative
    const Dtype* activations = nullptr;  ///< type of the residual stream, for masks and rotary tables
    [[nodiscard]] const Dtype& activation_dtype() const { return *activations; }
    [[nodiscard]] const OpAttributes& attributes() const { return op.attributes; }

    [[nodiscard]] std::size_t inputs() const { return op.inputs.size(); }
    [[nodiscard]] Ref in(std::size_t input) const;
    void out(std::size_t output, Ref value);
    /// Keeps a tensor until the block's forward returns (a value that the caller binds to `_`).
    void hold(Ref value) { held_.push_back(std::move(value)); }
    [[nodiscard]] Ref parameter(std::size_t i);
    [[nodiscard]] std::size_t parameters() const { return op.parameters.size(); }
    [[nodiscard]] const Parameter& shape_of_parameter(std::size_t i) const;
    [[nodiscard]] const Tensor& input_tensor(std::size_t i) const;
    [[nodiscard]] const Tensor& output_tensor(std::size_t i) const;
    /// Rows of a tensor, and rows x width, from the extents.
    [[nodiscard]] std::int64_t rows(const Tensor& tensor) const { return extents.rows(tensor.rows); }
    [[nodiscard]] std::int64_t numel(const Tensor& tensor) const {
        return detail::checked_mul(rows(tensor), tensor.width);
    }

private:
    std::vector<Ref>& tensors_;
    std::span<const std::size_t> leaves_;  ///< block parameter -> leaf of the tape
    std::vector<Ref>& held_;
};

}  // namespace membudget
