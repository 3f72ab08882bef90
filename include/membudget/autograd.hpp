#pragma once

/// Part `autograd`: PyTorch's eager executor and autograd engine, reduced to what they do to memory.
/// A `Tape` runs ops on tensors that have a size but no values. It counts references as CPython and
/// autograd do (names, saved tensors, gradient buffers), so the instant at which a storage dies
/// follows from the same rules as in the framework, and it writes each allocation and free as an
/// `Event`. Knows nothing of models, sharding or files.
///
///     forward  x -> mul(x, y) -> out        backward  grad(out) -> fresh grad(x), fresh grad(y)
///              saves x, y                             then the saved x, y are let go
///
/// Rules of what each op saves and what its backward allocates cite `derivatives.yaml` and
/// `aten/` of PyTorch 2.13.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/quantity.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// Index of a ledger term in a `TermTable`.
using TermId = std::uint16_t;
/// The term of what the allocator adds to requests: row 0 of every table.
inline constexpr TermId kRounding = 0;

/// The ledger terms of one step, by path ("activations/attention"). Interning the same path twice
/// gives the same id; ids count up from 0.
/// The first row is always `allocator/rounding`.
class TermTable {
public:
    TermTable() { intern("allocator/rounding"); }
    TermId intern(std::string_view path);
    [[nodiscard]] const std::string& path(TermId id) const { return rows_[id].path; }
    /// Id of the path's first component ("activations") among first components.
    [[nodiscard]] int group(TermId id) const { return rows_[id].group; }
    [[nodiscard]] const std::string& group_name(int group) const {
        return groups_[static_cast<std::size_t>(group)];
    }
    [[nodiscard]] std::size_t size() const { return rows_.size(); }
    [[nodiscard]] std::size_t groups() const { return groups_.size(); }

private:
    struct Row {
        std::string path;
        int group;
    };
    static constexpr std::size_t kSlots = 256;
    std::vector<Row> rows_;
    std::vector<std::string> groups_;
    /// 1 + the latest row of each hash; 0: none. A hit spares the search through all rows.
    std::array<std::uint16_t, kSlots> recent_{};
};

/// `Label::op` of an event that no op of a block causes.
inline constexpr std::uint16_t kNoOp = 0xFFFF;

/// What an event is about, for `where` and `explain`: an op of a block, and the tensor's role.
struct Label {
    std::uint16_t op = 0;       ///< index given by whoever drives the tape
    const char* what = "";      ///< static text: "output", "mask", "grad input"
};

/// One allocation (bytes > 0) or free (bytes < 0) of `count` equal tensors.
struct Event {
    std::int64_t bytes = 0;      ///< requested, per tensor; the sign tells alloc from free
    std::int32_t rounding = 0;   ///< what the allocator adds, same sign
    std::int32_t count = 1;
    std::int32_t storage = -1;   ///< pairs an alloc with its free within one tape; -1: unpaired
    TermId term = 0;
    Label label;                 ///< the op that made the tensor, and its role
    std::uint16_t during = kNoOp;  ///< op under way, for a tape's events: what frees a tensor
};

/// Whose kernels compute: they differ in what they keep (dropout masks) and in rounding.
enum class Backend {
    cuda,  ///< blocks rounded to 512 B [c10/cuda/CUDACachingAllocator.cpp kMinBlockSize]
    cpu,   ///< exact sizes
};

/// What the allocator adds to a request of `bytes`.
[[nodiscard]] std::int32_t rounding_of(std::int64_t bytes, Backend backend);

class Tape;

/// A reference to a tensor, as a Python name or a C++ local holds one. Copying adds a reference;
/// the storage is freed when the last one and all saved ones are gone.
class Ref {
public:
    Ref() = default;
    Ref(const Ref& other);
    Ref(Ref&& other) noexcept : tape_(other.tape_), tensor_(other.tensor_) { other.tape_ = nullptr; }
    Ref& operator=(const Ref& other);
    Ref& operator=(Ref&& other) noexcept;
    ~Ref() { reset(); }
    void reset();
    explicit operator bool() const { return tape_ != nullptr; }
    [[nodiscard]] std::int64_t numel() const;
    [[nodiscard]] const Dtype& dtype() const;
    [[nodiscard]] bool requires_grad() const;

private:
    friend class Tape;
    Ref(Tape* tape, std::int32_t tensor) : tape_(tape), tensor_(tensor) {}
    Tape* tape_ = nullptr;
    std::int32_t tensor_ = -1;
};

/// Where a tape books what it allocates.
struct TapeTerms {
    TermId backward = 0;   ///< gradients of activations and other transients of backward
    TermId gradients = 0;  ///< gradients of parameters
    TermId collected = 0;  ///< gradients that wait to be reduced to shards
    TermId update = 0;     ///< scratch of an optimizer that runs inside backward
    TermId recompute = 0;  ///< what the second forward of a checkpointed block allocates
    TermId cast_weights = 0;  ///< autocast's copies of parameters in the first forward
};

/// A parameter as a tape sees it.
struct Leaf {
    std::int64_t numel = 0;
    const Dtype* dtype = nullptr;
    bool trainable = true;
    /// `.grad` exists already (accumulation, or kept between steps): new gradients are added to it.
    bool has_grad = false;
    /// dtype of `.grad`, when not the parameter's (main gradients).
    const Dtype* grad_dtype = nullptr;
    /// More of it is still to come from a block that runs later in backward (tied parameter).
    bool shared_later = false;
    /// The gradient stays only until `release_collected` (it is reduced to shards then).
    bool collect = false;
    /// The optimizer consumes each gradient as it appears, with this much scratch; negative: no.
    std::int64_t consume_scratch = -1;
};

/// One op's share in backward; see `Tape::NodeBuilder`.
struct BackwardStep {
    enum class Kind : std::uint8_t {
        temp,        ///< allocate a transient
        drop,        ///< free transient `index`
        leave,       ///< transient `index` is a gradient that waits for a node of another tape
        grad,        ///< allocate the gradient of edge `index`
        grad_view,   ///< the same, handed on as a view of it (transposed)
        pass,        ///< hand the gradient of the output on to edge `index`
        pass_view,   ///< the same as a view, which forbids later accumulation in place
        give,        ///< hand saved tensor `bytes` of the node over as the gradient of edge `index`
        returned,    ///< the node's function has returned; the engine's casts and sums follow
    };
    Kind kind = Kind::temp;
    std::int16_t index = 0;
    std::int64_t bytes = 0;
    const char* what = "";
};

/// Records and replays one stretch of a training step. Not copyable: `Ref`s point to it.
class Tape {
public:
    /// What the tape remembers lives in `memory`, which may be an arena: it is let go as a whole.
    Tape(TapeTerms terms, Backend backend,
         std::pmr::memory_resource* memory = std::pmr::get_default_resource())
        : terms_(terms), backend_(backend), storages_(memory), tensors_(memory), nodes_(memory),
          edges_(memory), saved_(memory), steps_(memory), slots_(memory), leaves_(memory),
          inputs_(memory), temps_(memory), delivered_(memory) {}
    Tape(const Tape&) = delete;
    Tape& operator=(const Tape&) = delete;

    [[nodiscard]] Backend backend() const { return backend_; }
    /// Makes room for what so many ops of a block usually leave.
    void reserve(std::size_t ops, std::size_t leaves);

    // --- what the driver sets -------------------------------------------------------------------
    /// Events go to `out` from now on.
    void record_to(std::vector<Event>* out) { events_ = out; }
    /// Term and op of what forward allocates from now on.
    void book(TermId term, std::uint16_t op) {
        term_ = term;
        op_ = op;
    }
    void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }
    /// Saved tensors come out of hooks: those of a node die with its function's locals, before the engine casts
    /// and sums its gradients [torch/utils/checkpoint.py _checkpoint_hook; torch/csrc/autograd/engine.cpp
    /// call_function, validate_outputs].
    void set_hooked(bool hooked) { hooked_ = hooked; }
    /// The loss does not depend on what is recorded from now on: it waits for `release_unreached`.
    void set_unreached(bool unreached) { unreached_ = unreached; }
    [[nodiscard]] bool grad_enabled() const { return grad_enabled_; }
    /// dtype to which autocast casts the inputs of matrix products; null: no autocast.
    void set_autocast(const Dtype* type) { autocast_ = type; }
    [[nodiscard]] const Dtype* autocast() const { return autocast_; }

    // --- tensors from outside -------------------------------------------------------------------
    /// A parameter of this block; index `leaf` counts them. Never allocated or freed here.
    Ref parameter(std::size_t leaf);
    std::size_t add_leaf(Leaf leaf);
    [[nodiscard]] const Leaf& leaf(std::size_t index) const { return leaves_[index].leaf; }
    /// Whether nodes of this tape will add to its gradient.
    [[nodiscard]] bool leaf_is_used(std::size_t index) const { return leaves_[index].uses > 0; }
    /// A tensor that someone else allocated and hands over: freed here, under `term`.
    Ref adopt(std::int64_t numel, const Dtype& type, bool requires_grad, TermId term);
    /// A tensor that someone else owns: referred to here, never freed here.
    Ref borrow(std::int64_t numel, const Dtype& type, bool requires_grad);
    /// `requires_grad_()` on a tensor that nothing trained made: its gradient is accumulated in its own
    /// `.grad`; both live until `drop_input_gradients`: the node that accumulates refers to the tensor.
    void require_grad(const Ref& tensor);
    void drop_input_gradients();
    [[nodiscard]] bool is_required(const Ref& tensor) const;
    /// `detach()` of a tensor given from outside that needs a gradient: a leaf, though its gradient goes on.
    void detach(const Ref& tensor);
    /// What that will free once backward has run, as allocations.
    void required(std::vector<Event>& events) const;
    /// A borrowed tensor is freed here from now on, or not any more.
    void own(const Ref& tensor, TermId term);
    void disown(const Ref& tensor);
    [[nodiscard]] bool owns(const Ref& tensor) const;
    /// Ends this tape's ownership without freeing: the tensor goes to the next block.
    /// Returns true when saved tensors of this tape still refer to its storage: then it dies here,
    /// in backward, and the next block must `borrow` it.
    bool hand_over(Ref tensor);

    // --- forward: ops that allocate, save and record their backward ------------------------------
    /// A new tensor outside autograd.
    Ref fresh(std::int64_t numel, const Dtype& type, const char* what);
    /// The same, booked under `term`.
    Ref fresh(std::int64_t numel, const Dtype& type, TermId term, const char* what);
    /// A view or reshape that copies nothing.
    /// `gradient` tells whether the gradient can be viewed back or has to be copied first (the
    /// gradient of a transposed tensor is not contiguous).
    enum class ViewGradient { view, copy };
    Ref view(Ref x, ViewGradient gradient = ViewGradient::view);
    /// A view of part of `x` (slice, select): its gradient is a fresh zero-filled tensor of x's size.
    Ref slice(Ref x, std::int64_t numel);
    /// All chunks of `x` along one dimension as views; in backward they are concatenated once.
    std::vector<Ref> chunk(Ref x, std::span<const std::int64_t> numels);
    /// What an op that autocast lists gets of `x`: cast, of parameters once and for all.
    Ref autocast_input(Ref x);
    /// `x.to(type)`; the same tensor when it has the type already.
    Ref cast(Ref x, const Dtype& type);
    /// `contiguous()`, `clone()`: a copy; the gradient passes through.
    Ref copy(Ref x);
    /// `x.expand(...).reshape(...)`: `repeat_kv`; a copy `numel` large, summed back in backward.
    Ref repeat(Ref x, std::int64_t numel);
    /// `x.expand(...)`, a view that counts elements several times; its gradient is summed.
    Ref expand(Ref x, std::int64_t numel);
    Ref add(Ref a, Ref b);
    /// a - b, of which b is broadcast: its gradient is negated, then summed.
    Ref sub(Ref a, Ref b);
    /// a += b.
    Ref add_in_place(Ref a, Ref b);
    Ref add_scalar(Ref x);
    Ref mul_scalar(Ref x);
    Ref neg(Ref x);
    /// Elementwise product; a smaller operand is broadcast and its gradient summed.
    Ref mul(Ref a, Ref b);
    /// The same of two factors of which either may be broadcast; a number without dimensions decides no type.
    Ref mul(Ref a, Ref b, std::int64_t numel, const Dtype& type);
    /// `x.pow(2)`.
    Ref square(Ref x);
    /// `x.mean(-1, keepdim=True)`: `rows` numbers.
    Ref mean(Ref x, std::int64_t rows);
    Ref rsqrt(Ref x);
    /// A sum to `numel` elements; its gradient is expanded, which later views copy.
    Ref sum_to(Ref x, std::int64_t numel);
    /// The result of an op that writes into `x`: the same storage, without a node yet.
    Ref alias_of_storage(const Ref& x);
    Ref cat(std::span<Ref> parts);
    /// One-input functions that save their input (gelu, silu) or their output (tanh, sigmoid, relu).
    Ref unary_saving_input(Ref x, const char* what);
    Ref unary_saving_output(Ref x, const char* what);
    Ref softmax(Ref x, const Dtype& type);
    Ref dropout(Ref x, double probability);
    /// `F.linear`: rows x in -> rows x out. Under autocast, casts first (weights through the cache).
    Ref linear(Ref x, Ref weight, Ref bias, std::int64_t rows, std::int64_t in, std::int64_t out);
    /// `matmul` of two activations: a result of `numel`.
    Ref matmul(Ref a, Ref b, std::int64_t numel);
    Ref layer_norm(Ref x, Ref weight, Ref bias, std::int64_t rows);
    /// Fused RMSNorm: saves the input and the reciprocal root mean square per row (fp32).
    Ref fused_rms_norm(Ref x, Ref weight, std::int64_t rows);
    /// Row lookup: `numel` elements; ids are `rows` int64 numbers.
    Ref embedding(Ref ids, Ref weight, std::int64_t numel);
    /// Fused attention: see `FusedAttention`.
    struct FusedAttention {
        std::int64_t lse_numel = 0;          ///< fp32 log-sum-exp kept for backward
        std::int64_t rng_bytes = 0;
        std::int64_t backward_workspace = 0; ///< bytes, while the gradients are computed
        std::int64_t expanded_kv_numel = 0;  ///< GQA: dk and dv per query head before the sum; 0: none
    };
    Ref fused_attention(Ref q, Ref k, Ref v, Ref mask, std::int64_t out_numel,
                        const FusedAttention& how);
    /// Cross-entropy from logits of `rows x classes`: log-softmax, then the negative log-likelihood.
    enum class Reduction { mean, none };
    Ref cross_entropy(Ref logits, Ref labels, std::int64_t rows, std::int64_t classes,
                      Reduction reduction = Reduction::mean);
    /// Both of these apart.
    Ref log_softmax(Ref logits);
    Ref nll_loss(Ref log_probabilities, Ref labels, std::int64_t rows, Reduction reduction = Reduction::mean);

    /// How many nodes there are; and those recorded since there were so many are gone, as nothing refers to them.
    [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
    void forget(std::size_t nodes);

    /// Records a node by hand, for kernels that are one autograd function of their own.
    class NodeBuilder;

    /// What the graph behind a tensor has saved.
    [[nodiscard]] std::vector<Ref> saved_behind(const Ref& tensor);

    // --- the end of forward, and backward ---------------------------------------------------------
    /// Autocast exits: its cache of cast weights goes.
    void clear_autocast_cache();
    /// Books a tensor under another term and role than its op did, from its allocation on.
    void rename(const Ref& tensor, TermId term, const char* what);
    /// Another reference that keeps nothing alive, to name the tensor later (`seed`, `gradient_of`).
    [[nodiscard]] Ref alias(const Ref& tensor);
    [[nodiscard]] TermId term_of(const Ref& tensor) const;
    /// Where the gradient of a parameter is booked, or of a tensor that is none.
    [[nodiscard]] TermId gradient_term_of(const Ref& tensor) const;
    /// How many saved tensors of this tape refer to the tensor's storage.
    [[nodiscard]] std::int32_t saved_count(const Ref& tensor) const;
    /// A gradient that crosses a boundary between blocks.
    struct BoundaryGradient {
        bool exists = false;
        bool view = false;        ///< held as a view: not accumulated in place
        std::int64_t bytes = 0;
        TermId term = 0;
        friend bool operator==(const BoundaryGradient&, const BoundaryGradient&) = default;
    };
    /// The gradient of an output, or of a tensor from outside, as the blocks that ran before in backward
    /// left it; before `backward`.
    void seed(const Ref& tensor, BoundaryGradient gradient);
    /// The same for a parameter that several blocks use.
    void seed_leaf(std::size_t leaf, BoundaryGradient gradient);
    /// Another reference to the gradient that waits for a tensor: nothing is added to it in place.
    [[nodiscard]] Ref gradient_reference(const Ref& output);
    /// A gradient that someone else owns and holds: never freed here, never accumulated in place.
    void seed_foreign(const Ref& output);
    /// The gradient of the loss, the last node's output: one number, allocated here.
    void seed_loss();
    /// How many events had been written when the last tensor was saved: recomputation stops there.
    [[nodiscard]] std::size_t last_save() const { return last_save_; }
    /// How many events backward had written when it first needed a saved tensor, counted in the list
    /// that `record_to` set: recomputation begins there.
    [[nodiscard]] std::size_t first_unpack() const { return first_unpack_; }
    /// The gradients that nodes have left for other tapes, which `seed` them; all of one size. The last one, and
    /// how many.
    [[nodiscard]] BoundaryGradient left() const { return left_; }
    [[nodiscard]] std::int64_t left_count() const { return left_count_; }
    /// Runs all nodes, the latest first. Frees saved tensors as nodes finish.
    void backward();
    /// What refers to the nodes that backward does not reach is gone: their saved tensors go.
    void release_unreached();
    /// The gradient that backward left for an adopted or borrowed input; it lives on.
    [[nodiscard]] BoundaryGradient gradient_of(const Ref& input) const;
    /// Ends this tape's ownership of that gradient.
    void hand_over_gradient(const Ref& input);
    /// What is in an input buffer outside takes that gradient in: the sum is the input's gradient now.
    void add_outer_gradient(const Ref& input, BoundaryGradient outer);
    /// The gradient of a parameter that a later block in backward adds to; this tape gives it up.
    [[nodiscard]] BoundaryGradient take_leaf_gradient(std::size_t leaf);
    /// Collected gradients have been reduced: they go.
    void release_collected();

private:
    friend class Ref;
    friend class NodeBuilder;

    struct Storage {
        std::int64_t bytes = 0;
        std::int32_t rounding = 0;
        std::int32_t refs = 0;     ///< all of them
        std::int32_t saved = 0;    ///< those of saved tensors
        TermId term = 0;
        bool owned = true;         ///< freed here when refs reach 0
        Label label;
    };
    struct TensorRow {
        std::int32_t storage = -1;
        std::int32_t node = -1;    ///< node that computed it; -1: none
        std::int32_t leaf = -1;    ///< parameter
        std::int32_t input = -1;   ///< boundary input
        std::int16_t slot = 0;     ///< which output of the node
        bool requires_grad = false;
        std::int64_t numel = 0;
        const Dtype* dtype = nullptr;
    };
    struct Edge {
        std::int32_t node = -1, leaf = -1, input = -1;
        std::int16_t slot = 0;
        std::int64_t bytes = 0;    ///< of the gradient
    };
    /// A gradient that waits: in a node's input buffer, an accumulation node, or at the boundary.
    struct Gradient {
        std::int32_t storage = -1;
        bool view = false;
    };
    struct Node {
        const char* what = "";
        std::int32_t first_edge = 0, edges = 0;
        std::int32_t first_saved = 0, saved = 0;
        std::int32_t first_step = 0, steps = 0;
        std::int32_t first_slot = 0, slots = 1;
        std::uint16_t op = 0;
        bool unreached = false;
    };
    struct LeafRow {
        Leaf leaf;
        std::int32_t tensor = -1;
        std::int32_t uses = 0;      ///< edges that point to it and have not delivered yet
        Gradient gradient;
        std::int32_t cached_cast = -1;  ///< tensor in autocast's cache
    };
    struct InputRow {
        std::int32_t tensor = -1;
        Gradient gradient;
        bool is_leaf = false;  ///< `require_grad`: its accumulation node holds it
        bool detached = false;
        std::int32_t cached_cast = -1;  ///< tensor in the cache of autocast
    };

    std::int32_t new_storage(std::int64_t bytes, TermId term, const char* what);
    std::int32_t new_tensor(std::int32_t storage, std::int64_t numel, const Dtype& type);
    Ref new_output(std::int64_t numel, const Dtype& type, const char* what);
    void retain(std::int32_t storage) { ++storages_[static_cast<std::size_t>(storage)].refs; }
    void release(std::int32_t storage);
    void emit(std::int32_t storage, int sign);
    [[nodiscard]] std::int32_t rounding_of(std::int64_t bytes) const {
        return membudget::rounding_of(bytes, backend_);
    }
    TensorRow& row(const Ref& ref) { return tensors_[static_cast<std::size_t>(ref.tensor_)]; }
    [[nodiscard]] const TensorRow& row(const Ref& ref) const {
        return tensors_[static_cast<std::size_t>(ref.tensor_)];
    }
    void run_node(const Node& node);
    void release_saved(const Node& node);
    void deliver(const Edge& edge, Gradient gradient);
    void accumulate_leaf(LeafRow& leaf);
    void rename_storage(std::int32_t storage, TermId term, const char* what);
    [[nodiscard]] Gradient accumulate(Gradient held, Gradient incoming, TermId term, std::int64_t bytes);
    /// The parameter to whose gradient an edge leads, through nodes that only hand gradients on, and whether one of
    /// them makes it a view; -1: none.
    [[nodiscard]] std::int32_t leaf_behind(const Edge& edge, bool& view) const;
    [[nodiscard]] TermId gradient_term(std::int32_t leaf, bool view) const;
    std::int32_t adopt_gradient(BoundaryGradient gradient, const char* what);

    TapeTerms terms_;
    Backend backend_;
    std::vector<Event>* events_ = nullptr;
    TermId term_ = 0;
    std::uint16_t op_ = 0;
    bool grad_enabled_ = true;
    bool unreached_ = false;
    std::size_t last_save_ = 0;
    std::size_t first_unpack_ = 0;
    BoundaryGradient left_;
    std::int64_t left_count_ = 0;
    bool hooked_ = false;
    bool unpacked_ = false;
    const Dtype* autocast_ = nullptr;
    std::pmr::vector<Storage> storages_;
    std::pmr::vector<TensorRow> tensors_;
    std::pmr::vector<Node> nodes_;
    std::pmr::vector<Edge> edges_;
    std::pmr::vector<std::int32_t> saved_;
    std::pmr::vector<BackwardStep> steps_;
    std::pmr::vector<Gradient> slots_;         ///< gradient waiting for each output of each node
    std::pmr::vector<LeafRow> leaves_;
    std::pmr::vector<InputRow> inputs_;
    std::pmr::vector<std::int32_t> temps_;     ///< scratch of run_node
    std::pmr::vector<std::pair<std::int32_t, Gradient>> delivered_;  ///< scratch of run_node
};

/// Builds one autograd node: edges to its inputs, saved tensors, and the steps of its backward.
/// Nothing is recorded when no input needs a gradient.
class Tape::NodeBuilder {
public:
    NodeBuilder(Tape& tape, const char* what, std::initializer_list<const Ref*> inputs);
    NodeBuilder(Tape& tape, const char* what, std::span<const Ref> inputs);
    /// False when autograd records nothing here.
    [[nodiscard]] bool active() const { return active_; }
    [[nodiscard]] bool needs(std::size_t input);
    void save(const Ref& tensor);
    /// Allocates a transient in backward; returns its number for `drop`.
    std::int16_t temp(std::int64_t bytes, const char* what);
    void drop(std::int16_t temp);
    /// The transient is the gradient of a tensor that another tape has made: see `Tape::left`.
    void leave(std::int16_t temp);
    /// Here the node's function returns; see `BackwardStep::Kind::returned`.
    void returned();
    void grad(std::size_t input, const char* what = "grad input");
    void grad_view(std::size_t input, const char* what);
    void pass(std::size_t input);
    void pass_view(std::size_t input);
    /// Saves a tensor that is the gradient of `input` already: a function whose forward computes it.
    void give(std::size_t input, const Ref& gradient);
    /// Makes `output` (or several, for chunk) the node's output.
    void finish(Ref& output);
    void finish(std::span<Ref> outputs);

private:
    void connect(std::size_t count, const Ref* const* inputs);
    void add_step(BackwardStep step);
    Tape& tape_;
    bool active_ = false;
    Node node_;
    [[nodiscard]] std::int16_t& edge_of(std::size_t input) {
        return input < few_.size() ? few_[input] : more_[input - few_.size()];
    }
    std::array<std::int16_t, 8> few_{};  ///< input -> index of its edge, or -1
    std::vector<std::int16_t> more_;     ///< the same from the ninth input on
    std::int16_t temps_ = 0;
};

}  // namespace membudget
