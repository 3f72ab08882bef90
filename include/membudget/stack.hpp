#pragma once

/// Part `stack`: *how* a job is computed, as tables of rows: precision schemes, optimizers, kernels,
/// sharding. Each row cites its source. Knows nothing of files or text.

#include <array>
#include <cstdint>
#include <limits>
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
    std::int64_t images = 0;           ///< images of the micro-batch, each tile of an image by itself
    std::int64_t tiles = 1;            ///< tiles of an image
    std::int64_t patches = 0;          ///< rows of the vision tower, over all images
    /// Tokens of the text that an image takes, in rows and columns, and of all images.
    std::int64_t image_rows = 0, image_columns = 0, image_tokens = 0;
    bool padding_mask = false;         ///< a batch with padding: masks are materialised
    std::int64_t loss_chunks = 0;      ///< pieces in which a chunked loss is computed; 0: its default

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
    /// Sharded data parallelism gathers the parameters in this type, forward and backward use them
    /// so, and their unsharded gradients have it; null: as the parameters. Without gathering it
    /// means nothing.
    const Dtype* gathered = nullptr;
    const Dtype* reduced = nullptr;         ///< gradients on their way to shards; null: as gathered
    /// Gradients live in one buffer for the whole run (Megatron), not from backward to zero_grad.
    bool gradient_buffer = false;
    /// At the optimizer step each gradient is copied to this type for the step; null: no copy.
    const Dtype* gradient_copy = nullptr;
    std::string_view source = {};
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

/// Sizes of a tensor's dimensions; a scalar has none.
using Shape = std::span<const std::int64_t>;

/// Bytes of a state slot for one parameter of `shape`, in `type` (the slot's, or the parameter's).
using StateSize = Bytes (*)(Shape shape, const Dtype& type, OptimizerOptions options);

/// A tensor that an optimizer keeps per parameter.
struct StateSlot {
    std::string_view name;        ///< ledger path: optimizer_states/NAME; as in the state dict
    const Dtype* dtype = nullptr; ///< null: the type of the tensor that the optimizer updates
    StateSize size = nullptr;
    std::string_view rule;        ///< the size rule in words, for formulas: "numel x dtype"
    /// Tensors of at least so many elements live in unified memory, outside the caching allocator;
    /// 0: never.
    std::int64_t paged_from = 0;
    /// Codes of at most 8 bits with scales per block; small tensors may stay as they are.
    bool quantized = false;
};

/// One implementation's temporaries during `step()`.
struct OptimizerImplementation {
    std::string_view name;                   ///< "for-loop", "foreach", "fused"
    /// Copies of the whole list of updated tensors that live at once (foreach); in tenths, so that
    /// 10 is one copy. Steady state / first step.
    int list_copies_tenths = 0;
    int list_copies_tenths_first = 0;
    /// A list beside those of matrices (and stacks of them), which goes before those of vectors come; null: none.
    StateSize list_beside = nullptr;
    /// Scratch while one tensor is updated, live one tensor at a time; null: none. What happens only
    /// in every n-th step (the refresh of a projection) counts as if it happened in all of them.
    StateSize tensor_scratch = nullptr;
    /// The part of that scratch which a Python name still holds while the next tensor is updated:
    /// the peak at a tensor is its scratch plus what the tensor before carried; null: none.
    StateSize tensor_carried = nullptr;
    /// Scalars (`step`) that it keeps on the device, per updated tensor. The others keep them in host
    /// memory, where they do not count.
    std::int64_t device_scalar_bytes = 0;
    std::string_view source = {};
};

struct Optimizer {
    std::string_view name;
    std::string_view doc;
    std::span<const StateSlot> slots = {};
    std::span<const OptimizerImplementation> implementations = {};  ///< first: the default on CUDA
    std::span<const OptimizerOption> options = {};
    /// States exist from construction on; else the first step creates them.
    bool states_at_construction = false;
    /// Gradients are consumed as backward makes them; there is never more than one.
    bool fused_in_backward = false;
    /// Large states live in unified memory, outside the caching allocator: see the slots.
    bool paged = false;
    /// Tables that the optimizer keeps once per device (the values of 8-bit codes).
    std::int64_t constant_bytes = 0;
    /// True when the row updates a parameter of this component and shape; null: all of them.
    bool (*handles)(Component component, Shape shape) = nullptr;
    std::string_view fallback = {};   ///< row for the parameters that it does not handle
    std::string_view fallback_implementation = {};  ///< of that row; empty: its first
    std::string_view source = {};
};
[[nodiscard]] Table<Optimizer> optimizers();

/// Bytes of one slot for a parameter of `shape`. `updated` is the type of the tensor that the
/// optimizer updates, `chosen` the type that a job states for the slot; null: as the row says.
[[nodiscard]] Bytes slot_bytes(const StateSlot& slot, Shape shape, const Dtype& updated,
                               const Dtype* chosen, OptimizerOptions options);
/// Bytes of all slots of `optimizer` for a parameter of `shape` that it handles, as the row says.
/// Scalars and the tables of `constant_bytes` are not in it.
[[nodiscard]] Bytes state_bytes(const Optimizer& optimizer, Shape shape, const Dtype& updated);
[[nodiscard]] Bytes state_bytes(const Optimizer& optimizer, Shape shape, const Dtype& updated,
                                OptimizerOptions options);

// --- sharding ------------------------------------------------------------------------------------

/// How a tensor is cut into equal shards, and so what padding it needs.
enum class Partition {
    whole,       ///< replicated
    flat,        ///< all tensors of a group in one flat buffer, padded to a multiple
    per_tensor,  ///< each tensor padded along its first dimension (FSDP2)
};

/// Data-parallel sharding of model states. Without a second rank every row is `none`.
struct Sharding {
    std::string_view name;
    std::string_view doc;
    Partition parameters = Partition::whole;
    Partition gradients = Partition::whole;
    Partition states = Partition::whole;  ///< optimizer states and master weights
    /// Flat buffers are padded to a multiple of `flat_alignment x degree` elements, and of
    /// `flat_multiple` elements.
    std::int64_t flat_alignment = 1;
    std::int64_t flat_multiple = 1;
    /// In a flat buffer each tensor starts at a multiple of so many elements.
    std::int64_t tensor_alignment = 1;
    /// A flat partition pads every tensor to a multiple of the degree on its own (ZeRO-3).
    bool pads_each_tensor = false;
    /// A group of a flat partition is one wrapped block (FSDP); else it is the whole model.
    bool group_per_block = false;
    /// Extra copies of gradients in buckets, in bytes of the gradient type (DDP without bucket views).
    bool gradient_buckets = false;
    /// Parameters are gathered per block for its forward and backward.
    bool gathers_parameters = false;
    /// Gathered parameters go after forward and are gathered again for backward; else they stay
    /// from a block's forward to its backward.
    bool reshard_after_forward = true;
    /// Copies of a group, beside the gathered parameters, that its gathering needs: the all-gather's
    /// output where it is not where the parameters end up.
    int gather_copies = 0;
    /// Tensors of at most so many elements stay gathered; 0: none.
    std::int64_t persistent_elements = 0;
    /// Buffers in which gradients are collected to be reduced: elements of each, how many, and
    /// whether they live for the whole run or only during backward. 0: none of a fixed size.
    std::int64_t reduce_bucket_elements = 0;
    int reduce_buckets = 0;
    bool reduce_buckets_persist = false;
    std::string_view source = {};
};
[[nodiscard]] Table<Sharding> shardings();

/// Elements that `degree` ranks hold together of one group of tensors, padding included: a multiple
/// of `degree`, of which every rank holds the same share. A whole partition is held once per rank,
/// without padding; then, and with one rank, it is the sum of the elements.
[[nodiscard]] Elements padded(std::span<const Shape> group, Partition partition,
                              const Sharding& sharding, std::int64_t degree);
/// The same for a group of one tensor.
[[nodiscard]] Elements padded(Shape shape, Partition partition, const Sharding& sharding,
                              std::int64_t degree);
/// What one rank holds of a group of tensors.
struct Share {
    Elements held;  ///< padding included: the same on every rank
    Elements real;  ///< of the group's own elements; over all ranks they sum to them
};
/// The share of rank `rank` (0 <= rank < degree). Requires a partition that is not whole.
[[nodiscard]] Share share_of(std::span<const Shape> group, Partition partition, const Sharding& sharding,
                             std::int64_t degree, std::int64_t rank);
/// Dimensions of this tensor's shard, padded; by these the optimizer's size rules go. Flat partitions
/// cut through tensors: for them it is an equal share of the tensor, rounded up.
[[nodiscard]] std::vector<std::int64_t> shard_shape(Shape shape, Partition partition,
                                                    std::int64_t degree);

// --- the caching allocator -------------------------------------------------------------------------

/// What PYTORCH_ALLOC_CONF can change, and the memory there is.
struct AllocatorSettings {
    bool expandable_segments = false;
    /// Blocks of at least so many bytes are never split; none by default.
    std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
    /// With `max_split_size`: a block may exceed an oversize request by less than this.
    std::int64_t max_non_split_rounding = 20 * 1024 * 1024;
    /// Segment for requests from 1 to 10 MiB, and page of expandable segments of the large pool.
    std::int64_t large_segment_size = 20 * 1024 * 1024;
    /// Divisions of a power of two to which sizes from 1 MiB << i on are rounded; 0: multiples of 512.
    std::array<std::int64_t, 16> roundup_power2_divisions{};
    /// Share of the limit beyond which old cached segments are freed first; 0: never.
    double garbage_collection_threshold = 0;
    /// What this process may reserve as a share of `capacity`; absent: no limit of its own.
    std::optional<double> memory_fraction;
    /// Bytes that cudaMalloc can hand out to this allocator; absent: no end.
    std::optional<std::int64_t> capacity;

    friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

/// Reads "max_split_size_mb:128,expandable_segments:True", the value of PYTORCH_ALLOC_CONF. Keys that
/// do not decide a size (pinned memory, locks) are accepted; unknown ones are errors.
[[nodiscard]] Result<AllocatorSettings> parse_allocator_settings(std::string_view text);

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
    /// Of a loss: it runs the head as the module that it is, over one piece of the sequence after the other.
    bool in_chunks = false;
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
               std::vector<Ref>& held, std::vector<Ref>& locals, std::vector<Ref>& outputs, Ref& result)
        : tape(on), op(what), block(in), extents(shape), tensors_(tensors), leaves_(leaves),
          held_(held), locals_(locals), outputs_(outputs), result_(result) {}

    /// The same for another op, shape and tensors: a kernel that runs a part of itself as an op.
    [[nodiscard]] KernelCall with(const Op& what, const Extents& shape, std::vector<Ref>& tensors) const {
        return with(what, shape, tensors, held_);
    }
    /// The same for a function that returns before the block does: what it holds goes to `held`.
    [[nodiscard]] KernelCall with(const Op& what, const Extents& shape, std::vector<Ref>& tensors,
                                  std::vector<Ref>& held) const {
        KernelCall part(tape, what, block, shape, tensors, leaves_, held, locals_, outputs_, result_);
        part.dropout = dropout;
        part.imbalance = imbalance;
        part.activations = activations;
        return part;
    }

    Tape& tape;
    const Op& op;
    const Block& block;
    const Extents& extents;
    Ref early;                ///< what `Kernel::first` returned
    bool cached = false;      ///< keys and values were written to a cache, head by head
    double dropout = -1;      ///< overrides the op's probability when not negative
    double imbalance = 1;     ///< of routed experts: rows of the busiest over the mean
    const Dtype* activations = nullptr;  ///< type of the residual stream, for masks and rotary tables
    [[nodiscard]] const Dtype& activation_dtype() const { return *activations; }
    [[nodiscard]] const OpAttributes& attributes() const { return op.attributes; }

    [[nodiscard]] std::size_t inputs() const { return op.inputs.size(); }
    [[nodiscard]] Ref in(std::size_t input) const;
    void out(std::size_t output, Ref value);
    /// The name of an input is bound to another tensor.
    void rebind_input(std::size_t input, Ref value);
    /// Keeps a tensor until the block's forward returns (a value that the caller binds to `_`).
    void hold(Ref value) { held_.push_back(std::move(value)); }
    /// Makes a tensor a result of the block beside its output: the loop over the blocks holds it until
    /// the next one has returned (`outputs = block(...)`).
    void return_beside(Ref value) { result_ = std::move(value); }
    /// Makes a tensor a part of the model's outputs (logits), which the training loop drops.
    void keep_as_output(Ref value) { outputs_.push_back(std::move(value)); }
    /// Keeps a tensor until the function returns that the op is part of.
    void hold_local(Ref value) { locals_.push_back(std::move(value)); }
    [[nodiscard]] Ref parameter(std::size_t i);
    /// Whether the parameter's `.grad` exists already: a new gradient is added to it.
    [[nodiscard]] bool accumulates(std::size_t i) const;
    [[nodiscard]] std::size_t parameters() const { return op.parameters.size(); }
    [[nodiscard]] const Parameter& shape_of_parameter(std::size_t i) const;
    [[nodiscard]] const Tensor& input_tensor(std::size_t i) const;
    [[nodiscard]] const Tensor& output_tensor(std::size_t i) const;
    /// Rows of a tensor, and rows x width, from the extents.
    [[nodiscard]] std::int64_t rows(const Tensor& tensor) const {
        const std::int64_t all = detail::checked_mul(extents.rows(tensor.rows), tensor.times);
        return tensor.most > 0 && all > tensor.most ? tensor.most : all;
    }
    [[nodiscard]] std::int64_t numel(const Tensor& tensor) const {
        return detail::checked_mul(rows(tensor), tensor.width);
    }

private:
    std::vector<Ref>& tensors_;
    std::span<const std::size_t> leaves_;  ///< block parameter -> leaf of the tape
    std::vector<Ref>& held_;
    std::vector<Ref>& locals_;
    std::vector<Ref>& outputs_;
    Ref& result_;
};

}  // namespace membudget
