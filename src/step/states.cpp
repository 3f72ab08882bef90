#include "step/states.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "step/host.hpp"

namespace membudget {

namespace {

/// Row and implementation for one parameter: the optimizer's, or its fallback's.
struct Updater {
    const Optimizer* row = nullptr;
    const OptimizerImplementation* implementation = nullptr;
    bool fallback = false;
};

Updater updater_of(const JobOptimizer& optimizer, const Parameter& parameter) {
    const Optimizer& row = *optimizer.row;
    if (row.handles != nullptr && !row.handles(parameter.component, parameter.shape))
        return {optimizer.fallback, optimizer.fallback_implementation, true};
    return {&row, optimizer.implementation, false};
}

/// Elements of a tensor of `shape`.
std::int64_t numel_of(Shape shape) {
    std::int64_t numel = 1;
    for (const std::int64_t dimension : shape) numel = detail::checked_mul(numel, dimension);
    return numel;
}

/// Dimensions of a rank's part of a parameter, `room` holding them where it is cut.
Shape shape_of_shard(const Parameter& parameter, Partition partition, std::int64_t degree,
                     std::vector<std::int64_t>& room) {
    if (degree == 1) return parameter.shape;
    room = shard_shape(parameter.shape, partition, degree);
    return room;
}

using Pointers = std::vector<const Parameter*>;

/// Modules that a class registers in another order than it runs them: the first, and those behind it.
struct RegisteredBefore {
    std::string_view first, behind;
};
constexpr RegisteredBefore kRegisteredBefore[] = {
    {"embeddings.position_embeddings", "embeddings.token_type_embeddings"},  // BERT and its kin
    {"attn.out_proj", "attn.qkv_proj"},                                      // CodeGen
    {"mlp.down_proj", "mlp.act_fn"},                                         // Apertus
    {"feed_forward", "attention"},                                           // Pixtral
    {"attention", "ffn_norm"},
    {"layer.0.SelfAttention", "layer.0.layer_norm"},  // T5
    {"layer.1.EncDecAttention", "layer.1.layer_norm"},
    {"layer.1.DenseReluDense", "layer.1.layer_norm"},
    {"layer.2.DenseReluDense", "layer.2.layer_norm"},
    {"SelfAttention.o", "SelfAttention.relative_attention_bias"},
};

std::string_view module_of(const Parameter& parameter) {
    return std::string_view(parameter.name).substr(0, parameter.name.rfind('.'));
}

/// Moves what belongs to `order.first` in front of what belongs to `order.behind`.
void put_first(Pointers& parameters, const RegisteredBefore& order) {
    const auto in = [](std::string_view module) {
        return [module](const Parameter* p) {
            const std::string_view own = module_of(*p);
            const std::size_t at = own.find(module);
            return at != std::string_view::npos && (at == 0 || own[at - 1] == '.') &&
                   (at + module.size() == own.size() || own[at + module.size()] == '.');
        };
    };
    const auto behind = std::find_if(parameters.begin(), parameters.end(), in(order.behind));
    if (behind != parameters.end()) std::stable_partition(behind, parameters.end(), in(order.first));
}

/// The block's parameters in the order in which the class registers them, which is the optimizer's. In the
/// layers of Llama and those made after it, attention and MLP come before the norms, and within attention the norms
/// of queries and keys behind the projections [transformers models/llama/modeling_llama.py
/// LlamaDecoderLayer.__init__, models/qwen3/modeling_qwen3.py Qwen3Attention.__init__].
Pointers registered(const Block& block) {
    Pointers out;
    for (const Parameter& parameter : block.parameters) out.push_back(&parameter);
    for (const RegisteredBefore& order : kRegisteredBefore) put_first(out, order);
    const auto is_attention = [](const Parameter* p) { return p->name.starts_with("self_attn."); };
    const auto is_norm = [](const Parameter* p) {
        return module_of(*p).ends_with("_layernorm") && module_of(*p).find('.') == std::string_view::npos;
    };
    const auto is_head_norm = [](const Parameter* p) {
        constexpr std::string_view kNames[] = {"q_norm", "k_norm", "q_layernorm", "k_layernorm"};
        const std::string_view name = module_of(*p).substr(module_of(*p).rfind('.') + 1);
        return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
    };
    const auto attention = std::find_if(out.begin(), out.end(), is_attention);
    if (attention == out.end()) return out;
    std::stable_partition(attention, std::find_if_not(attention, out.end(), is_attention), std::not_fn(is_head_norm));
    std::stable_partition(out.begin(), out.end(), std::not_fn(is_norm));
    return out;
}

/// Parameters of each block of a section, which has so many copies.
struct Registered {
    std::vector<Pointers> blocks;
    std::int64_t copies = 1;
};

/// The sections in the order in which the class registers them: towers and what projects their features come before
/// the text, whose embeddings run first [models/llava/modeling_llava.py LlavaModel.__init__].
std::vector<Registered> registered(const Model& model) {
    std::vector<const Section*> sections;
    for (const Section& section : model.sections) sections.push_back(&section);
    std::stable_partition(sections.begin(), sections.end(), [&](const Section* section) {
        const Block& block = model.blocks[static_cast<std::size_t>(section->pattern.front())];
        if (block.parameters.empty()) return false;
        const std::string name = section->prefix + block.parameters.front().name;
        constexpr std::string_view kSeen[] = {"vision", "visual", "multi_modal_projector"};
        return std::any_of(std::begin(kSeen), std::end(kSeen),
                           [&](std::string_view word) { return name.find(word) != std::string::npos; });
    });
    std::vector<Registered> out;
    Pointers last;
    for (const Section* const section : sections) {
        Registered& made = out.emplace_back();
        made.copies = section->count;
        for (const int index : section->pattern) {
            Pointers& block = made.blocks.emplace_back(registered(model.blocks[static_cast<std::size_t>(index)]));
            const auto behind = std::stable_partition(block.begin(), block.end(),
                                                      [](const Parameter* p) { return !p->registered_last; });
            last.insert(last.end(), behind, block.end());
            block.erase(behind, block.end());
        }
    }
    out.push_back({{std::move(last)}, 1});
    return out;
}

/// What the job chooses for a slot without a type of its own, unless it holds codes.
const Dtype* precision_dtype(const Job& job, const StateSlot& slot) {
    return slot.dtype == nullptr && !slot.quantized ? job.precision.states : nullptr;
}

}  // namespace

const Dtype& updated_dtype(const Precision& precision) {
    return precision.master_weights != nullptr ? *precision.master_weights : *precision.parameters;
}

const Dtype& held_dtype(const Precision& precision, const Parameter& parameter) {
    return parameter.dtype != nullptr ? *parameter.dtype : *precision.parameters;
}

bool follows(const Precision& precision, const Parameter& parameter) {
    return &held_dtype(precision, parameter) == precision.parameters;
}

const Dtype& updated_dtype(const Precision& precision, const Parameter& parameter) {
    return follows(precision, parameter) ? updated_dtype(precision) : held_dtype(precision, parameter);
}

const Dtype& gradient_dtype(const Precision& precision, const Parameter& parameter) {
    return precision.gradients != nullptr && follows(precision, parameter)
               ? *precision.gradients
               : held_dtype(precision, parameter);
}

std::string_view parameter_path(const Model& model, const Parameter& parameter) {
    if (!model.adapted) return "parameters";
    if (parameter.role == ParameterRole::adapter) return "parameters/adapters";
    return parameter.trainable ? "parameters/trained" : "parameters/frozen";
}

const Dtype* chosen_dtype(const Job& job, std::size_t slot) {
    const Dtype* stated = job.optimizer.slot_dtypes[slot];
    return stated != nullptr ? stated : precision_dtype(job, job.optimizer.row->slots[slot]);
}

void free_all(const std::vector<Event>& allocated, std::vector<Event>& events) {
    for (const Event& event : allocated) {
        Event freed = event;
        freed.bytes = -freed.bytes;
        freed.rounding = -freed.rounding;
        events.push_back(freed);
    }
}

StateBooks::StateBooks(const Job& job, TermTable& terms, Notes notes)
    : job_(job), terms_(terms), notes_(notes) {
    for_each_tensor(*job.model, [&](const Parameter& parameter, std::int64_t copies) {
        if (parameter.trainable && !updates_on_host(job, parameter))
            trainable_ += detail::checked_mul(parameter.elements().count(), copies);
    });
}

bool StateBooks::gradients_stay() const { return in_buffers() || !job_.zero_grad_to_none; }

bool StateBooks::gradients_exist() const { return in_buffers() || (!job_.zero_grad_to_none && job_.steady); }

bool StateBooks::in_buffers() const {
    // ZeRO-3 keeps its shards of the gradients in one buffer from construction on
    // [DeepSpeed runtime/zero/stage3.py grad_partitions_flat_buffer].
    const Sharding& sharding = *job_.data.sharding;
    const bool one_buffer = job_.data.shard > 1 && sharding.gathers_parameters &&
                            sharding.gradients == Partition::flat && !sharding.group_per_block;
    return job_.precision.gradient_buffer || one_buffer;
}

std::vector<Event> StateBooks::start() {
    const Sharding& sharding = *job_.data.sharding;
    std::vector<Event> events;
    const auto book = [&](std::string_view path, std::string_view padding, const Dtype& type,
                          Partition partition, const char* what) {
        array(events, {path, padding, &type, partition, what, is_trained}, groups());
    };
    parameters(events);
    master_weights(events);
    if (gradients_exist() && !job_.optimizer.in_backward) {
        const std::vector<Event> held = gradients();
        events.insert(events.end(), held.begin(), held.end());
    }
    if (sharding.gradient_buckets && job_.data.ranks() > 1)
        book("communication/ddp_buckets", "padding/ddp_buckets", gradient_type(), Partition::whole, "bucket");
    if (sharding.reduce_buckets_persist && job_.data.shard > 1)
        for (int i = 0; i < sharding.reduce_buckets; ++i)
            buffer(events, "communication/reduce_buckets", byte_count(sharding.reduce_bucket_elements, gradient_type()),
                   "bucket");
    if (sharding.persistent_elements > 0 && job_.data.shard > 1) persistent(events);
    if (job_.optimizer.ema != nullptr)
        book("optimizer_states/ema", "padding/optimizer_states", *job_.optimizer.ema, Partition::whole,
             "moving average");
    if (job_.steady || job_.optimizer.row->states_at_construction) slots(events);
    blas_workspaces(events);
    return events;
}

void StateBooks::blas_workspaces(std::vector<Event>& events) {
    // It comes with the first product of a thread and stays: the caller's, and autograd's.
    constexpr int kThreads = 2;
    constexpr std::string_view kPath = "workspace/cublas";
    if (job_.backend != Backend::cuda || !job_.device || job_.device->blas_workspace == Bytes(0)) return;
    for (int thread = 0; thread < kThreads; ++thread)
        buffer(events, kPath, job_.device->blas_workspace.count(), "cuBLAS workspace");
    notes_.put(terms_.intern(kPath), [&]() -> TermNote {
        return {Basis::derived, Total::allocated,
                fmt::format("{} threads x {} bytes", kThreads, group_digits(job_.device->blas_workspace.count())),
                "aten/src/ATen/cuda/CublasHandlePool.cpp, CUDABlas; docs/cuda.md"};
    });
}

void StateBooks::persistent(std::vector<Event>& events) {
    // Small tensors stay gathered beside their shards
    // [DeepSpeed runtime/zero/parameter_offload.py mark_persistent_parameters].
    const TermId term = terms_.intern("communication/persistent_parameters");
    const Sharding& sharding = *job_.data.sharding;
    notes_.put(term, [&]() -> TermNote {
        return {Basis::exact, Total::allocated,
                fmt::format("tensors of at most {} elements, whole", group_digits(sharding.persistent_elements)),
                std::string(sharding.source)};
    });
    for_each_tensor(*job_.model, [&](const Parameter& parameter, std::int64_t copies) {
        const std::int64_t elements = parameter.elements().count();
        if (elements <= sharding.persistent_elements)
            alloc(events, term, byte_count(elements, held_dtype(job_.precision, parameter)), copies,
                  "gathered weight");
    });
}

bool StateBooks::slots_as_arrays(std::vector<Event>& events) {
    // A flat buffer is cut where it falls, through tensors: what has an element for each of theirs is
    // cut the same way. Other slots follow rules of whole tensors, so they are shared tensor by tensor.
    const Sharding& sharding = *job_.data.sharding;
    const JobOptimizer& optimizer = job_.optimizer;
    if (degree(sharding.states) == 1 || sharding.states != Partition::flat || optimizer.fallback != nullptr)
        return false;
    const auto updated_by = [&](const Parameter& p) -> const Dtype& { return updated_dtype(job_.precision, p); };
    const std::vector<const Dtype*> updated_types = types_of(*job_.model, is_trained, updated_by);
    if (updated_types.size() != 1) return false;
    const Dtype& updated = *updated_types.front();
    std::vector<const Dtype*> types;
    for (std::size_t i = 0; i < optimizer.row->slots.size(); ++i) {
        const StateSlot& slot = optimizer.row->slots[i];
        const Dtype* chosen = chosen_dtype(job_, i);
        types.push_back(chosen != nullptr ? chosen : slot.dtype != nullptr ? slot.dtype : &updated);
        if (slot.quantized || slot.paged_from > 0) return false;
        bool whole = true;
        for_each_tensor(*job_.model, [&](const Parameter& parameter, std::int64_t) {
            whole = whole && slot_bytes(slot, parameter.shape, updated, chosen, optimizer.options) ==
                                 bytes_of(parameter.elements(), *types.back());
        });
        if (!whole) return false;
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
        const std::string path = "optimizer_states/" + std::string(optimizer.row->slots[i].name);
        array(events, {path, "padding/optimizer_states", types[i], sharding.states, "state", is_trained},
              groups());
    }
    return true;
}

void StateBooks::slots(std::vector<Event>& events) {
    if (slots_as_arrays(events)) return;
    for (const Section& section : job_.model->sections)
        for (const int index : section.pattern)
            for (const Parameter& parameter : job_.model->blocks[static_cast<std::size_t>(index)].parameters)
                if (parameter.tied_to.empty() && parameter.trainable)
                    slots_of(events, parameter, section.count);
    if (job_.optimizer.row->constant_bytes == 0) return;
    constexpr std::string_view kMap = "optimizer_states/quantization_map";
    buffer(events, kMap, job_.optimizer.row->constant_bytes, "code table");
    notes_.put(terms_.intern(kMap), [&]() -> TermNote {
        return {Basis::exact, Total::allocated, "the values of the codes, once per device",
                std::string(job_.optimizer.row->source)};
    });
}

TermId StateBooks::slot_term(const StateSlot& slot) {
    for (const auto& [known, term] : slot_terms_)
        if (known == &slot) return term;
    const TermId term = terms_.intern("optimizer_states/" + std::string(slot.name));
    slot_terms_.emplace_back(&slot, term);
    return term;
}

void StateBooks::slots_of(std::vector<Event>& events, const Parameter& parameter, std::int64_t copies) {
    const Sharding& sharding = *job_.data.sharding;
    const JobOptimizer& optimizer = job_.optimizer;
    const std::int64_t n = degree(sharding.states);
    const Dtype& updated = updated_dtype(job_.precision, parameter);
    const Updater updater = updater_of(optimizer, parameter);
    if (updater.row == nullptr || updates_on_host(job_, parameter)) return;
    std::vector<std::int64_t> room;
    const Shape shape = shape_of_shard(parameter, sharding.states, n, room);
    const std::int64_t numel = numel_of(shape);
    for (std::size_t i = 0; i < updater.row->slots.size(); ++i) {
        const StateSlot& slot = updater.row->slots[i];
        const Dtype* chosen = updater.fallback ? precision_dtype(job_, slot) : chosen_dtype(job_, i);
        if (slot.paged_from > 0 && numel >= slot.paged_from) continue;  // unified memory
        const TermId term = slot_term(slot);
        notes_.put_first(term, [&]() -> TermNote {
            return {Basis::exact, Total::allocated,
                    fmt::format("{}: {} over {} elements{}", updater.row->name, slot.rule, group_digits(trainable_),
                                n > 1 ? fmt::format(" / {} ranks", n) : ""),
                    std::string(updater.row->source)};
        });
        alloc(events, term, slot_bytes(slot, shape, updated, chosen, optimizer.options).count(), copies,
              "state");
    }
    if (updater.implementation != nullptr && updater.implementation->device_scalar_bytes > 0) {
        const TermId term = terms_.intern("optimizer_states/step");
        notes_.put(term, [&]() -> TermNote {
            return {Basis::exact, Total::allocated, "a scalar for each tensor, on the device",
                    std::string(updater.implementation->source)};
        });
        alloc(events, term, updater.implementation->device_scalar_bytes, copies, "step");
    }
}

std::vector<Event> StateBooks::optimizer_step() {
    std::vector<Event> events;
    clipping(events);
    std::vector<Event> copies;
    if (job_.precision.gradient_copy != nullptr)
        array(copies, {"temporaries/gradient_copy", "padding/gradients", job_.precision.gradient_copy,
                       job_.data.sharding->states, "gradient in the optimizer's type",
                       [&](const Parameter& p) { return p.trainable && follows(job_.precision, p); }},
              groups());
    events.insert(events.end(), copies.begin(), copies.end());
    if (!job_.steady && !job_.optimizer.row->states_at_construction) slots(events);
    if (!job_.optimizer.in_backward) {
        // A fallback is an optimizer of its own, which steps after the other has.
        temporaries(events, false);
        if (job_.optimizer.fallback != nullptr) temporaries(events, true);
    }
    free_all(copies, events);
    return events;
}

void StateBooks::temporaries(std::vector<Event>& events, bool fallback) {
    const Sharding& sharding = *job_.data.sharding;
    const std::int64_t n = degree(sharding.states);
    const TermId term = terms_.intern("temporaries/optimizer_step");
    std::string_view source;
    std::vector<Event> lists, later;  // later: lists of vectors, where matrices are updated before them
    std::vector<Event> beside;
    std::vector<Event> scratch;
    std::vector<std::int64_t> room;
    std::int64_t carried = 0;  // by the tensor before
    const auto drop_carried = [&](std::int64_t size) {
        if (size == 0) return;
        std::vector<Event> allocated;
        alloc(allocated, term, size, 1, "scratch of one tensor");
        free_all(allocated, scratch);
    };
    const OptimizerImplementation* const used =
        fallback ? job_.optimizer.fallback_implementation : job_.optimizer.implementation;
    const bool carries = used != nullptr && used->tensor_scratch != nullptr;
    for (const Registered& section : registered(*job_.model)) {
        // What one tensor carries meets the next one's scratch, also from copy to copy of a block.
        const std::int64_t copies = std::min<std::int64_t>(section.copies, carries ? 2 : 1);
        for (std::int64_t copy = 0; copy < copies; ++copy)
            for (const Pointers& block : section.blocks)
                for (const Parameter* one : block) {
                    const Parameter& parameter = *one;
                    if (!parameter.tied_to.empty() || !parameter.trainable || updates_on_host(job_, parameter)) continue;
                    const Updater updater = updater_of(job_.optimizer, parameter);
                    if (updater.implementation == nullptr || updater.fallback != fallback) continue;
                    const OptimizerImplementation& how = *updater.implementation;
                    source = how.source;
                    const Dtype& updated = updated_dtype(job_.precision, parameter);
                    const Shape shape = shape_of_shard(parameter, sharding.states, n, room);
                    const std::int64_t numel = numel_of(shape);
                    const int tenths = job_.steady ? how.list_copies_tenths : how.list_copies_tenths_first;
                    if (copy == 0 && tenths > 0)
                        alloc(how.list_beside != nullptr && shape.size() < 2 ? later : lists, term,
                              detail::checked_mul(byte_count(numel, updated), tenths) / 10, section.copies,
                              "foreach list");
                    if (copy == 0 && how.list_beside != nullptr)
                        alloc(beside, term, how.list_beside(shape, updated, job_.optimizer.options).count(),
                              section.copies, "foreach list");
                    if (how.tensor_scratch == nullptr) continue;
                    const std::int64_t size =
                        how.tensor_scratch(shape, updated, job_.optimizer.options).count();
                    const std::int64_t keeps =
                        how.tensor_carried == nullptr
                            ? 0
                            : how.tensor_carried(shape, updated, job_.optimizer.options).count();
                    alloc(scratch, term, size - std::min(size, keeps), 1, "scratch of one tensor");
                    alloc(scratch, term, keeps, 1, "scratch of one tensor");
                    drop_carried(carried);
                    drop_carried(size - std::min(size, keeps));
                    carried = keeps;
                }
    }
    drop_carried(carried);
    events.insert(events.end(), lists.begin(), lists.end());
    events.insert(events.end(), beside.begin(), beside.end());
    free_all(beside, events);
    events.insert(events.end(), later.begin(), later.end());
    events.insert(events.end(), scratch.begin(), scratch.end());
    free_all(lists, events);
    free_all(later, events);
    if (fallback) return;
    notes_.put(term, [&]() -> TermNote {
        return {Basis::derived, Total::allocated,
                fmt::format("{}{}: intermediate lists or tensors of the update", job_.optimizer.row->name,
                            job_.optimizer.implementation == nullptr
                                ? ""
                                : fmt::format(" '{}'", job_.optimizer.implementation->name)),
                std::string(source)};
    });
}

std::int64_t update_scratch(const Job& job, const Parameter& parameter) {
    const Updater updater = updater_of(job.optimizer, parameter);
    if (updater.implementation == nullptr) return 0;
    const OptimizerImplementation& how = *updater.implementation;
    const Dtype& updated = updated_dtype(job.precision, parameter);
    const auto bytes_of_rule = [&](StateSize rule) {
        return rule == nullptr ? 0 : rule(parameter.shape, updated, job.optimizer.options).count();
    };
    const std::int64_t list =
        detail::checked_mul(byte_count(parameter.elements().count(), updated), how.list_copies_tenths) / 10;
    return list + bytes_of_rule(how.list_beside) + bytes_of_rule(how.tensor_scratch);
}

}  // namespace membudget
