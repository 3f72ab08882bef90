#include "membudget/autograd.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace membudget {

namespace {
/// Smallest block of the caching allocator; every request is rounded up to a multiple of it
/// [pytorch c10/core/CachingDeviceAllocator.h kMinBlockSize; roundup in CUDACachingAllocator.cpp].
constexpr std::int64_t kCudaBlock = 512;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// Roles of tensors that cross from one tape to another: the same on both sides.
constexpr const char* kBlockOutput = "block output";
constexpr const char* kBoundaryGradient = "gradient between blocks";
constexpr const char* kTiedGradient = "gradient of tied weight";
}  // namespace

// --- references ----------------------------------------------------------------------------------

Ref::Ref(const Ref& other) : tape_(other.tape_), tensor_(other.tensor_) {
    if (tape_ != nullptr) tape_->retain(tape_->row(*this).storage);
}

Ref& Ref::operator=(const Ref& other) {
    if (this != &other) *this = Ref(other);
    return *this;
}

Ref& Ref::operator=(Ref&& other) noexcept {
    if (this != &other) {
        reset();
        tape_ = other.tape_;
        tensor_ = other.tensor_;
        other.tape_ = nullptr;
    }
    return *this;
}

void Ref::reset() {
    if (tape_ == nullptr) return;
    Tape* const tape = tape_;
    const std::int32_t storage = tape->row(*this).storage;
    tape_ = nullptr;
    tape->release(storage);
}

std::int64_t Ref::numel() const { return tape_->row(*this).numel; }
const Dtype& Ref::dtype() const { return *tape_->row(*this).dtype; }
bool Ref::requires_grad() const { return tape_ != nullptr && tape_->row(*this).requires_grad; }

// --- storages ------------------------------------------------------------------------------------

std::int32_t rounding_of(std::int64_t bytes, Backend backend) {
    if (backend == Backend::cpu) return 0;
    return static_cast<std::int32_t>(align_up(Bytes(bytes), kCudaBlock).count() - bytes);
}

void Tape::reserve(std::size_t ops, std::size_t leaves) {
    storages_.reserve(6 * ops + leaves);
    tensors_.reserve(8 * ops + leaves);
    nodes_.reserve(5 * ops);
    edges_.reserve(6 * ops);
    saved_.reserve(6 * ops);
    steps_.reserve(8 * ops);
    slots_.reserve(5 * ops);
    leaves_.reserve(leaves);
}

void Tape::emit(std::int32_t storage, int sign) {
    const Storage& s = storages_[at(storage)];
    if (s.bytes == 0 || events_ == nullptr) return;
    events_->push_back({sign * s.bytes, sign * s.rounding, 1, storage, s.term, s.label, op_});
}

std::int32_t Tape::new_storage(std::int64_t bytes, TermId term, const char* what) {
    const auto index = static_cast<std::int32_t>(storages_.size());
    storages_.push_back({bytes, rounding_of(bytes), 1, 0, term, true, {op_, what}});
    emit(index, +1);
    return index;
}

std::int32_t Tape::new_tensor(std::int32_t storage, std::int64_t numel, const Dtype& type) {
    TensorRow row;
    row.storage = storage;
    row.numel = numel;
    row.dtype = &type;
    tensors_.push_back(row);
    return static_cast<std::int32_t>(tensors_.size() - 1);
}

void Tape::release(std::int32_t storage) {
    Storage& s = storages_[at(storage)];
    MEMBUDGET_ENSURE(s.refs > 0, "a storage is released more often than it was retained");
    if (--s.refs == 0 && s.owned) emit(storage, -1);
}

Ref Tape::new_output(std::int64_t numel, const Dtype& type, const char* what) {
    const std::int32_t storage = new_storage(byte_count(numel, type), term_, what);
    return Ref(this, new_tensor(storage, numel, type));
}

// --- tensors from outside ------------------------------------------------------------------------

std::size_t Tape::add_leaf(Leaf leaf) {
    LeafRow row;
    row.leaf = leaf;
    storages_.push_back({0, 0, 1, 0, 0, false, {}});
    row.tensor = new_tensor(static_cast<std::int32_t>(storages_.size() - 1), leaf.numel, *leaf.dtype);
    TensorRow& tensor = tensors_.back();
    tensor.leaf = static_cast<std::int32_t>(leaves_.size());
    tensor.requires_grad = leaf.trainable;
    leaves_.push_back(row);
    return leaves_.size() - 1;
}

Ref Tape::parameter(std::size_t leaf) {
    const std::int32_t tensor = leaves_[leaf].tensor;
    retain(tensors_[at(tensor)].storage);
    return Ref(this, tensor);
}

Ref Tape::adopt(std::int64_t numel, const Dtype& type, bool requires_grad, TermId term) {
    const std::int64_t bytes = byte_count(numel, type);
    storages_.push_back({bytes, rounding_of(bytes), 1, 0, term, true, {op_, kBlockOutput}});
    const std::int32_t tensor =
        new_tensor(static_cast<std::int32_t>(storages_.size() - 1), numel, type);
    tensors_.back().requires_grad = requires_grad;
    tensors_.back().input = static_cast<std::int32_t>(inputs_.size());
    inputs_.push_back({tensor, {}});
    return Ref(this, tensor);
}

Ref Tape::borrow(std::int64_t numel, const Dtype& type, bool requires_grad) {
    Ref out = adopt(numel, type, requires_grad, 0);
    storages_[at(row(out).storage)].owned = false;
    return out;
}

void Tape::require_grad(const Ref& tensor) {
    TensorRow& made = row(tensor);
    if (made.requires_grad) return;
    made.requires_grad = true;
    made.input = static_cast<std::int32_t>(inputs_.size());
    inputs_.push_back({tensor.tensor_, {}, true});
    retain(made.storage);
    ++storages_[at(made.storage)].saved;
}

void Tape::drop_input_gradients() {
    for (InputRow& input : inputs_) {
        if (input.is_leaf) {
            const std::int32_t storage = tensors_[at(input.tensor)].storage;
            --storages_[at(storage)].saved;
            release(storage);
            input.is_leaf = false;
        }
        if (input.gradient.storage >= 0) release(input.gradient.storage);
        input.gradient = {};
    }
}

void Tape::required(std::vector<Event>& events) const {
    for (const InputRow& input : inputs_) {
        if (!input.is_leaf) continue;
        const TensorRow& tensor = tensors_[at(input.tensor)];
        const std::int64_t bytes = byte_count(tensor.numel, *tensor.dtype);
        for (const TermId term : {storages_[at(tensor.storage)].term, terms_.backward})
            events.push_back({bytes, rounding_of(bytes), 1, -1, term, {kNoOp, "embeddings that need a gradient"}});
    }
}

bool Tape::is_required(const Ref& tensor) const {
    const std::int32_t input = row(tensor).input;
    return input >= 0 && inputs_[at(input)].is_leaf;
}

void Tape::detach(const Ref& tensor) {
    if (const std::int32_t input = row(tensor).input; input >= 0) inputs_[at(input)].detached = true;
}

void Tape::own(const Ref& tensor, TermId term) {
    Storage& s = storages_[at(row(tensor).storage)];
    s.owned = true;
    s.term = term;
    s.label = {op_, kBlockOutput};
}

void Tape::disown(const Ref& tensor) { storages_[at(row(tensor).storage)].owned = false; }

bool Tape::owns(const Ref& tensor) const { return storages_[at(row(tensor).storage)].owned; }

bool Tape::hand_over(Ref tensor) {
    const std::int32_t storage = row(tensor).storage;
    rename_storage(storage, storages_[at(storage)].term, kBlockOutput);
    Storage& s = storages_[at(storage)];
    if (s.saved > 0) return true;  // dies in this tape's backward; the name's reference goes now
    s.owned = false;
    return false;
}

// --- nodes ---------------------------------------------------------------------------------------

Tape::NodeBuilder::NodeBuilder(Tape& tape, const char* what,
                               std::initializer_list<const Ref*> inputs)
    : tape_(tape) {
    node_.what = what;
    connect(inputs.size(), inputs.begin());
}

Tape::NodeBuilder::NodeBuilder(Tape& tape, const char* what, std::span<const Ref> inputs)
    : tape_(tape) {
    node_.what = what;
    std::vector<const Ref*> pointers;
    for (const Ref& ref : inputs) pointers.push_back(&ref);
    connect(pointers.size(), pointers.data());
}

void Tape::NodeBuilder::connect(std::size_t count, const Ref* const* inputs) {
    few_.fill(-1);
    if (count > few_.size()) more_.assign(count - few_.size(), -1);
    if (!tape_.grad_enabled_) return;
    for (std::size_t i = 0; i < count; ++i) active_ = active_ || inputs[i]->requires_grad();
    if (!active_) return;
    node_.op = tape_.op_;
    node_.unreached = tape_.unreached_;
    node_.first_edge = static_cast<std::int32_t>(tape_.edges_.size());
    node_.first_saved = static_cast<std::int32_t>(tape_.saved_.size());
    node_.first_step = static_cast<std::int32_t>(tape_.steps_.size());
    for (std::size_t i = 0; i < count; ++i) {
        if (!inputs[i]->requires_grad()) continue;
        const TensorRow& tensor = tape_.row(*inputs[i]);
        if (tensor.leaf >= 0) ++tape_.leaves_[at(tensor.leaf)].uses;
        edge_of(i) = static_cast<std::int16_t>(node_.edges++);
        tape_.edges_.push_back({tensor.node, tensor.leaf, tensor.input, tensor.slot,
                                byte_count(tensor.numel, *tensor.dtype)});
    }
}

bool Tape::NodeBuilder::needs(std::size_t input) { return active_ && edge_of(input) >= 0; }

void Tape::NodeBuilder::save(const Ref& tensor) {
    if (!active_ || !tensor) return;
    const std::int32_t storage = tape_.row(tensor).storage;
    tape_.retain(storage);
    ++tape_.storages_[at(storage)].saved;
    tape_.saved_.push_back(storage);
    if (tape_.events_ != nullptr) tape_.last_save_ = tape_.events_->size();
    ++node_.saved;
}

void Tape::NodeBuilder::add_step(BackwardStep step) {
    tape_.steps_.push_back(step);
    ++node_.steps;
}

std::int16_t Tape::NodeBuilder::temp(std::int64_t bytes, const char* what) {
    if (active_) add_step({BackwardStep::Kind::temp, temps_, bytes, what});
    return temps_++;
}

void Tape::NodeBuilder::drop(std::int16_t temp) {
    if (active_) add_step({BackwardStep::Kind::drop, temp, 0, ""});
}

void Tape::NodeBuilder::leave(std::int16_t temp) {
    if (active_) add_step({BackwardStep::Kind::leave, temp, 0, ""});
}

void Tape::NodeBuilder::returned() {
    if (active_) add_step({BackwardStep::Kind::returned, 0, 0, ""});
}

void Tape::NodeBuilder::grad(std::size_t input, const char* what) {
    if (needs(input)) add_step({BackwardStep::Kind::grad, edge_of(input), 0, what});
}

void Tape::NodeBuilder::grad_view(std::size_t input, const char* what) {
    if (needs(input)) add_step({BackwardStep::Kind::grad_view, edge_of(input), 0, what});
}

void Tape::NodeBuilder::pass(std::size_t input) {
    if (needs(input)) add_step({BackwardStep::Kind::pass, edge_of(input), 0, ""});
}

void Tape::NodeBuilder::pass_view(std::size_t input) {
    if (needs(input)) add_step({BackwardStep::Kind::pass_view, edge_of(input), 0, ""});
}

void Tape::NodeBuilder::give(std::size_t input, const Ref& gradient) {
    if (!needs(input)) return;
    add_step({BackwardStep::Kind::give, edge_of(input), node_.saved, ""});
    save(gradient);
}

void Tape::NodeBuilder::finish(Ref& output) { finish(std::span<Ref>(&output, 1)); }

void Tape::NodeBuilder::finish(std::span<Ref> outputs) {
    if (!active_) return;
    node_.first_slot = static_cast<std::int32_t>(tape_.slots_.size());
    node_.slots = static_cast<std::int32_t>(outputs.size());
    const auto index = static_cast<std::int32_t>(tape_.nodes_.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        TensorRow& tensor = tape_.row(outputs[i]);
        tensor.node = index;
        tensor.slot = static_cast<std::int16_t>(i);
        tensor.requires_grad = true;
        tape_.slots_.push_back({});
    }
    tape_.nodes_.push_back(node_);
    if (node_.saved == 0 || tape_.events_ == nullptr || tape_.events_->empty() ||
        tape_.last_save_ != tape_.events_->size())
        return;
    // What a kernel reads is saved before it runs, what it makes after that
    // [tools/autograd/gen_variable_type.py emit_body]; here the output exists first.
    const Event& last = tape_.events_->back();
    const std::int32_t made = tape_.row(outputs.front()).storage;
    const auto saved = std::span(tape_.saved_).subspan(at(node_.first_saved));
    if (last.bytes > 0 && last.storage == made && std::ranges::find(saved, made) == saved.end())
        --tape_.last_save_;
}

// --- backward ------------------------------------------------------------------------------------

std::int32_t Tape::adopt_gradient(BoundaryGradient gradient, const char* what) {
    storages_.push_back({gradient.bytes, rounding_of(gradient.bytes), 1, 0, gradient.term, true, {op_, what}});
    return static_cast<std::int32_t>(storages_.size() - 1);
}

void Tape::seed(const Ref& output, BoundaryGradient gradient) {
    if (!gradient.exists) return;
    const TensorRow tensor = row(output);
    const Gradient seeded{adopt_gradient(gradient, kBoundaryGradient), gradient.view};
    if (tensor.leaf >= 0) {  // blocks read a parameter as a tensor: it becomes `.grad`, under its term
        LeafRow& leaf = leaves_[at(tensor.leaf)];
        if (leaf.leaf.collect || !leaf.leaf.has_grad) {
            emit(seeded.storage, -1);
            storages_[at(seeded.storage)].term = leaf.leaf.collect ? terms_.collected : terms_.gradients;
            emit(seeded.storage, +1);
        }
        leaf.gradient = seeded;
        if (leaf.uses == 0) accumulate_leaf(leaf);
        return;
    }
    if (tensor.node < 0) {
        if (tensor.input >= 0) inputs_[at(tensor.input)].gradient = seeded;
        return;
    }
    slots_[at(nodes_[at(tensor.node)].first_slot + tensor.slot)] = seeded;
}

void Tape::seed_leaf(std::size_t leaf, BoundaryGradient gradient) {
    if (gradient.exists) leaves_[leaf].gradient = {adopt_gradient(gradient, kTiedGradient), gradient.view};
}

Ref Tape::gradient_reference(const Ref& output) {
    const TensorRow tensor = row(output);
    const std::int32_t storage = tensor.node >= 0
                                     ? slots_[at(nodes_[at(tensor.node)].first_slot + tensor.slot)].storage
                                 : tensor.input >= 0 ? inputs_[at(tensor.input)].gradient.storage : -1;
    if (storage < 0) return {};
    retain(storage);
    return Ref(this, new_tensor(storage, 0, *tensor.dtype));
}

void Tape::seed_foreign(const Ref& output) {
    const TensorRow& tensor = row(output);
    if (tensor.node < 0) return;
    storages_.push_back({byte_count(tensor.numel, *tensor.dtype), 0, 1, 0,
                         terms_.backward, false, {op_, kBoundaryGradient}});
    slots_[at(nodes_[at(tensor.node)].first_slot + tensor.slot)] = {
        static_cast<std::int32_t>(storages_.size() - 1), true};
}

void Tape::seed_loss() {
    if (nodes_.empty()) return;
    const std::int32_t storage = new_storage(byte_count(1, dtype::fp32),
                                             terms_.backward, "gradient of loss");
    slots_[at(nodes_.back().first_slot)] = {storage, false};
}

Ref Tape::alias(const Ref& tensor) {
    // A tensor of its own storage without bytes, with the origin of the other.
    TensorRow copy = row(tensor);
    storages_.push_back({0, 0, 1, 0, 0, false, {}});
    copy.storage = static_cast<std::int32_t>(storages_.size() - 1);
    tensors_.push_back(copy);
    return Ref(this, static_cast<std::int32_t>(tensors_.size() - 1));
}

TermId Tape::term_of(const Ref& tensor) const { return storages_[at(row(tensor).storage)].term; }

TermId Tape::gradient_term_of(const Ref& tensor) const { return gradient_term(row(tensor).leaf, false); }

void Tape::backward() {
    for (std::size_t i = nodes_.size(); i-- > 0;) {
        const Node& node = nodes_[i];
        op_ = node.op;
        bool reached = false;
        for (std::int32_t s = 0; s < node.slots; ++s)
            reached = reached || slots_[at(node.first_slot + s)].storage >= 0;
        if (reached)
            run_node(node);
        else if (!node.unreached)
            release_saved(node);
    }
}

void Tape::release_unreached() {
    for (Node& node : nodes_) {
        if (!node.unreached) continue;
        release_saved(node);
        node.saved = 0;
    }
}

void Tape::forget(std::size_t nodes) {
    while (nodes_.size() > nodes) {
        const Node& node = nodes_.back();
        release_saved(node);
        for (std::int32_t i = 0; i < node.edges; ++i)
            if (const std::int32_t leaf = edges_[at(node.first_edge + i)].leaf; leaf >= 0) --leaves_[at(leaf)].uses;
        nodes_.pop_back();
    }
}

std::int32_t Tape::leaf_behind(const Edge& edge, bool& view) const {
    const Edge* next = &edge;
    while (next->node >= 0) {
        const Node& node = nodes_[at(next->node)];
        if (node.steps != 1) return -1;
        const BackwardStep& step = steps_[at(node.first_step)];
        if (step.kind != BackwardStep::Kind::pass && step.kind != BackwardStep::Kind::pass_view) return -1;
        view = view || step.kind == BackwardStep::Kind::pass_view;
        next = &edges_[at(node.first_edge + step.index)];
    }
    return next->leaf;
}

TermId Tape::gradient_term(std::int32_t leaf, bool view) const {
    // The engine's accumulation node takes the incoming tensor itself as `.grad` unless there is one
    // already [pytorch torch/csrc/autograd/functions/accumulate_grad.h].
    if (leaf < 0) return terms_.backward;
    const LeafRow& row = leaves_[at(leaf)];
    if (row.leaf.collect) return terms_.collected;
    if (row.leaf.has_grad) return terms_.backward;
    // Of several parts the first is added to in place where it is a tensor of its own, and becomes
    // `.grad`; a view is not: it is a transient, and its sum with the second becomes `.grad`.
    const bool first = row.gradient.storage < 0;
    const bool last = row.uses == 1 && !row.leaf.shared_later;
    return first && (last || !view) ? terms_.gradients : terms_.backward;
}

void Tape::run_node(const Node& node) {
    if (node.saved > 0 && !unpacked_) {
        unpacked_ = true;
        first_unpack_ = events_ != nullptr ? events_->size() : 0;
    }
    temps_.clear();
    delivered_.clear();
    bool holds_saved = true;
    const Gradient output = [&] {
        for (std::int32_t s = 0; s < node.slots; ++s)
            if (slots_[at(node.first_slot + s)].storage >= 0) return slots_[at(node.first_slot + s)];
        return Gradient{};
    }();
    for (std::int32_t i = 0; i < node.steps; ++i) {
        const BackwardStep& step = steps_[at(node.first_step + i)];
        const auto edge_at = [&](std::int16_t e) -> const Edge& {
            return edges_[at(node.first_edge + e)];
        };
        switch (step.kind) {
            case BackwardStep::Kind::temp:
                if (temps_.size() <= static_cast<std::size_t>(step.index))
                    temps_.resize(static_cast<std::size_t>(step.index) + 1, -1);
                temps_[static_cast<std::size_t>(step.index)] =
                    new_storage(step.bytes, terms_.backward, step.what);
                break;
            case BackwardStep::Kind::drop:
                release(temps_[static_cast<std::size_t>(step.index)]);
                break;
            case BackwardStep::Kind::leave: {
                const std::int32_t storage = temps_[static_cast<std::size_t>(step.index)];
                rename_storage(storage, terms_.backward, kBoundaryGradient);
                storages_[at(storage)].owned = false;
                left_ = {true, false, storages_[at(storage)].bytes, terms_.backward};
                ++left_count_;
                release(storage);
                break;
            }
            case BackwardStep::Kind::grad:
            case BackwardStep::Kind::grad_view: {
                const Edge& edge = edge_at(step.index);
                const bool view = step.kind == BackwardStep::Kind::grad_view;
                bool arrives_as_view = view;
                const std::int32_t leaf = leaf_behind(edge, arrives_as_view);
                const TermId term = gradient_term(leaf, arrives_as_view);
                delivered_.push_back({node.first_edge + step.index, {new_storage(edge.bytes, term, step.what), view}});
                break;
            }
            case BackwardStep::Kind::returned:
                if (hooked_) {
                    release_saved(node);
                    holds_saved = false;
                }
                break;
            case BackwardStep::Kind::give: {
                const std::int32_t storage = saved_[at(node.first_saved) + static_cast<std::size_t>(step.bytes)];
                retain(storage);
                delivered_.push_back({node.first_edge + step.index, {storage, false}});
                break;
            }
            case BackwardStep::Kind::pass:
            case BackwardStep::Kind::pass_view:
                retain(output.storage);
                delivered_.push_back(
                    {node.first_edge + step.index,
                     {output.storage, output.view || step.kind == BackwardStep::Kind::pass_view}});
                break;
        }
    }
    for (std::int32_t s = 0; s < node.slots; ++s) {
        Gradient& slot = slots_[at(node.first_slot + s)];
        if (slot.storage >= 0) release(slot.storage);
        slot.storage = -1;
    }
    if (holds_saved) release_saved(node);
    for (const auto& [edge, gradient] : delivered_) deliver(edges_[at(edge)], gradient);
}

void Tape::release_saved(const Node& node) {
    for (std::int32_t i = 0; i < node.saved; ++i) {
        const std::int32_t storage = saved_[at(node.first_saved + i)];
        --storages_[at(storage)].saved;
        release(storage);
    }
}

Tape::Gradient Tape::accumulate(Gradient held, Gradient incoming, TermId term, std::int64_t bytes) {
    if (held.storage < 0) return incoming;
    // The engine adds into the gradient it holds if nobody else refers to it. A view made during
    // backward keeps its base alive, so it never qualifies
    // [pytorch torch/csrc/autograd/input_buffer.cpp can_accumulate_inplace].
    if (!held.view && storages_[at(held.storage)].refs == 1) {
        release(incoming.storage);
        return held;
    }
    const std::int32_t sum = new_storage(bytes, term, "gradient sum");
    release(held.storage);
    release(incoming.storage);
    return {sum, false};
}

void Tape::deliver(const Edge& edge, Gradient gradient) {
    if (edge.leaf >= 0) {
        LeafRow& leaf = leaves_[at(edge.leaf)];
        const Leaf& given = leaf.leaf;
        const TermId term = given.collect    ? terms_.collected
                            : given.has_grad ? terms_.backward
                                             : terms_.gradients;
        leaf.gradient = accumulate(leaf.gradient, gradient, term, edge.bytes);
        if (--leaf.uses == 0) accumulate_leaf(leaf);
        return;
    }
    if (edge.node >= 0) {
        Gradient& slot = slots_[at(nodes_[at(edge.node)].first_slot + edge.slot)];
        slot = accumulate(slot, gradient, terms_.backward, edge.bytes);
        return;
    }
    Gradient& slot = inputs_[at(edge.input)].gradient;
    slot = accumulate(slot, gradient, terms_.backward, edge.bytes);
}

void Tape::accumulate_leaf(LeafRow& leaf) {
    if (leaf.leaf.shared_later) return;  // another block's use comes later
    if (leaf.leaf.collect) return;
    if (leaf.leaf.consume_scratch >= 0) {
        const std::int32_t scratch =
            new_storage(leaf.leaf.consume_scratch, terms_.update, "update scratch");
        release(scratch);
        release(leaf.gradient.storage);
        leaf.gradient = {};
        return;
    }
    // First gradient: the tensor becomes `.grad` and stays; one that others refer to is cloned
    // [accumulate_grad.h accumulateGrad]. Otherwise it is added in place.
    if (leaf.leaf.has_grad) {
        release(leaf.gradient.storage);
    } else if (!leaf.gradient.view && storages_[at(leaf.gradient.storage)].refs > 1) {
        new_storage(storages_[at(leaf.gradient.storage)].bytes, terms_.gradients, "cloned gradient");
        release(leaf.gradient.storage);
    }
    leaf.gradient = {};
}

void Tape::release_collected() {
    for (LeafRow& leaf : leaves_) {
        if (!leaf.leaf.collect || leaf.leaf.shared_later || leaf.gradient.storage < 0) continue;
        const std::int32_t storage = leaf.gradient.storage;
        leaf.gradient = {};
        release(storage);
    }
}

void Tape::rename_storage(std::int32_t storage, TermId term, const char* what) {
    Storage& s = storages_[at(storage)];
    if (events_ != nullptr)
        for (std::size_t i = events_->size(); i-- > 0;) {
            Event& event = (*events_)[i];
            if (event.storage != storage || event.bytes < 0) continue;
            event.term = term;
            event.label.what = what;
            break;
        }
    s.term = term;
    s.label.what = what;
}

void Tape::rename(const Ref& tensor, TermId term, const char* what) {
    rename_storage(row(tensor).storage, term, what);
}

std::vector<Ref> Tape::saved_behind(const Ref& tensor) {
    std::vector<Ref> out;
    std::vector<bool> seen(nodes_.size(), false);
    std::vector<std::int32_t> waiting{row(tensor).node};
    while (!waiting.empty()) {
        const std::int32_t index = waiting.back();
        waiting.pop_back();
        if (index < 0 || seen[at(index)]) continue;
        seen[at(index)] = true;
        const Node node = nodes_[at(index)];
        for (std::int32_t i = 0; i < node.saved; ++i) {
            const std::int32_t storage = saved_[at(node.first_saved + i)];
            retain(storage);
            out.push_back(Ref(this, new_tensor(storage, 0, *tensors_[at(tensor.tensor_)].dtype)));
        }
        for (std::int32_t i = 0; i < node.edges; ++i) waiting.push_back(edges_[at(node.first_edge + i)].node);
    }
    return out;
}

std::int32_t Tape::saved_count(const Ref& tensor) const {
    return storages_[at(row(tensor).storage)].saved;
}

Tape::BoundaryGradient Tape::gradient_of(const Ref& input) const {
    const Gradient& gradient = inputs_[at(row(input).input)].gradient;
    if (gradient.storage < 0) return {};
    return {true, gradient.view, storages_[at(gradient.storage)].bytes, terms_.backward};
}

void Tape::hand_over_gradient(const Ref& input) {
    Gradient& gradient = inputs_[at(row(input).input)].gradient;
    if (gradient.storage >= 0) {
        rename_storage(gradient.storage, terms_.backward, kBoundaryGradient);
        storages_[at(gradient.storage)].owned = false;
    }
    gradient = {};
}

void Tape::add_outer_gradient(const Ref& input, BoundaryGradient outer) {
    if (!outer.exists) return;
    Gradient& gradient = inputs_[at(row(input).input)].gradient;
    const Gradient held{adopt_gradient(outer, kBoundaryGradient), outer.view};
    gradient = gradient.storage < 0 ? held : accumulate(held, gradient, terms_.backward, storages_[at(held.storage)].bytes);
}

Tape::BoundaryGradient Tape::take_leaf_gradient(std::size_t leaf) {
    Gradient& gradient = leaves_[leaf].gradient;
    if (gradient.storage < 0) return {};
    Storage& s = storages_[at(gradient.storage)];
    rename_storage(gradient.storage, s.term, kTiedGradient);
    s.owned = false;
    const BoundaryGradient taken{true, gradient.view, s.bytes, s.term};
    gradient = {};
    return taken;
}

void Tape::clear_autocast_cache() {
    const auto drop = [this](std::int32_t& cast) {
        if (cast < 0) return;
        release(tensors_[at(std::exchange(cast, -1))].storage);
    };
    for (LeafRow& leaf : leaves_) drop(leaf.cached_cast);
    for (InputRow& input : inputs_) drop(input.cached_cast);
}

}  // namespace membudget
