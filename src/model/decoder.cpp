#include "model/decoder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/decoder_layer.hpp"

namespace membudget {
namespace {

Rows rows_of_features(const DecoderPlan& plan) {
    return plan.any_image_size ? Rows::image_tokens : Rows::images;
}

/// Shared tensors of the plan and, in the stem, the ops that make them.
SharedTensors declare_shared(const DecoderPlan& plan, std::vector<Tensor>& shared) {
    SharedTensors ids;
    shared = plan.carried;
    const auto declare = [&](std::string name, std::int64_t width, Rows rows) {
        return declare_tensor(shared, std::move(name), width, rows);
    };
    for (const LayerPlan& layer : plan.kinds) {
        const AttentionPlan& a = layer.attention;
        if (a.alibi_length > 0 && ids.alibi < 0)
            ids.alibi = declare("alibi", detail::checked_mul(a.heads, a.alibi_length), Rows::one);
        int& mask = a.window > 0 ? ids.window_mask : ids.full_mask;
        if (mask < 0)
            mask = declare(a.window > 0 ? "sliding_attention_mask" : "attention_mask", 0, Rows::one);
        const int last = plan.unused_tables ? 0 : a.rotary;
        for (auto table = static_cast<int>(ids.cos.size()); table <= last; ++table) {
            // gpt-oss keeps one angle for both halves.
            const std::int64_t width = a.rotation == Rotation::chunks     ? a.head_dim / 2
                                       : a.rotation == Rotation::trailing ? a.rotary_dim / 2
                                       : a.rotary_dim > 0             ? a.rotary_dim
                                                                      : a.head_dim;
            const Rows rows = plan.position_axes > 0 ? Rows::tokens : Rows::positions;
            ids.cos.push_back(declare(fmt::format("rotary_emb.{}.cos", table), width, rows));
            ids.sin.push_back(declare(fmt::format("rotary_emb.{}.sin", table), width, rows));
        }
    }
    if (plan.both_masks > 0) {
        if (ids.full_mask < 0) ids.full_mask = declare("attention_mask", 0, Rows::one);
        if (ids.window_mask < 0) ids.window_mask = declare("sliding_attention_mask", 0, Rows::one);
    }
    if (plan.tower) {
        ids.embeds = declare("inputs_embeds", plan.hidden, Rows::tokens);
        const auto features = [&](std::string name) {
            const int index = declare(std::move(name), plan.hidden, rows_of_features(plan));
            shared.back().times = plan.any_image_size ? 1 : plan.image_tokens;
            return index;
        };
        ids.features.images = features("image features");
        // What is made of tiles takes the place of their own features.
        shared.back().held = !plan.newline.empty() ? Held::until_last_read
                             : plan.decoder_within ? Held::until_return
                                                   : Held::until_outputs_end;
        for (std::int64_t i = 0; i < plan.deep_features; ++i) {
            ids.features.deep.push_back(features(fmt::format("deepstack_features.{}", i)));
            shared.back().held = Held::until_outputs_end;
        }
        for (std::int64_t i = 0; i < plan.deep_features; ++i)
            ids.deep.push_back(features(fmt::format("deepstack_visual_embeds.{}", i)));
        if (plan.deep_features > 0) ids.places = declare("visual_pos_masks", 1, Rows::tokens);
    }
    return ids;
}

/// The attention attributes that a mask or rotary tables of the stem depend on.
AttentionPlan first_attention(const DecoderPlan& plan, bool windowed) {
    const auto found = std::find_if(
        plan.kinds.begin(), plan.kinds.end(),
        [&](const LayerPlan& layer) { return (layer.attention.window > 0) == windowed; });
    if (found != plan.kinds.end()) return found->attention;
    AttentionPlan unused = plan.kinds.front().attention;
    unused.window = windowed ? plan.both_masks : 0;
    return unused;
}

/// The words of the text.
int embed_tokens(BlockBuilder& b, const DecoderPlan& plan) {
    const std::int64_t rows = plan.embedding_rows > 0 ? plan.embedding_rows : plan.vocabulary;
    const std::int64_t width = plan.embedding_width > 0 ? plan.embedding_width : plan.hidden;
    int x = b.embedding(plan.embedding, rows, width);
    if (plan.keeps_embeddings) b.hold_until_model_end(x);
    b.last_op().attributes.scaled = plan.embedding_scale && !plan.scales_outside;
    if (plan.embedding_scale) x = b.scale(x, "embed_scale", place::embedding);
    if (!plan.embedding_norm.empty()) x = b.norm(x, plan.embedding_norm, plan.norm);
    return x;
}

/// Of a model with images: the words alone, which wait for what the tower makes.
Block build_embeddings(const DecoderPlan& plan, const SharedTensors& ids, const std::vector<Tensor>& shared) {
    BlockBuilder b("embeddings");
    b.share(embed_tokens(b, plan), ids.embeds, shared);
    return std::move(b).finish(-1);
}

/// Images take their places among the words.
int join_images(BlockBuilder& b, const DecoderPlan& plan, const SharedTensors& ids,
                const std::vector<Tensor>& shared) {
    const int x = b.tensor("inputs_embeds", plan.hidden);
    const bool tiles = !plan.newline.empty();
    const int features = b.tensor("image_features", plan.hidden, tiles ? Rows::image_tokens : rows_of_features(plan));
    if (!plan.any_image_size && !tiles) b.set_times(features, plan.image_tokens);
    std::vector<int> newline;
    if (tiles) newline.push_back(b.parameter(std::string(plan.newline), {plan.hidden}, Component::vision));
    const auto local = [&](int tensor) {
        return plan.decoder_within ? b.hold_until_return(tensor) : b.hold_until_model_end(tensor);
    };
    const int mask = ids.places >= 0 ? b.shared(ids.places, shared) : local(b.tensor("special_image_mask", 1));
    OpAttributes& join = b.op(OpKind::join_images, "inputs_embeds", place::embedding,
                              {b.shared(ids.embeds, shared), b.shared(ids.features.images, shared)}, {x, local(features), mask},
                              std::move(newline)).attributes;
    join.listed = plan.listed_images;
    join.sliced = plan.picked_images;
    for (std::size_t i = 0; i < ids.deep.size(); ++i)
        b.op(OpKind::concat, shared[static_cast<std::size_t>(ids.deep[i])].name, place::embedding,
             {b.shared(ids.features.deep[i], shared)}, {b.shared(ids.deep[i], shared)}).attributes.listed = true;
    return x;
}

Block build_stem(const DecoderPlan& plan, const SharedTensors& ids,
                 const std::vector<Tensor>& shared) {
    BlockBuilder b(plan.tower ? "join" : "embeddings");
    int x = plan.tower ? join_images(b, plan, ids, shared) : embed_tokens(b, plan);
    if (plan.beside_embeddings) plan.beside_embeddings(b, x);

    const auto mask = [&](int index, bool windowed) {
        if (index < 0) return;
        const AttentionPlan a = first_attention(plan, windowed);
        const Tensor& tensor = shared[static_cast<std::size_t>(index)];
        OpAttributes& attributes = b.op(OpKind::attention_mask, tensor.name, place::attention, {},
                                        {b.shared(index, tensor)}).attributes;
        attributes.image_blocks = plan.image_blocks || (plan.window_blocks && windowed);
        attributes.window = a.window;
        attributes.chunked = a.chunked;
        attributes.heads = a.heads;
        attributes.bias = a.alibi;
        attributes.form = a.form;
        attributes.of_keys = a.form == AttentionForm::openai_gpt;
    };
    if (ids.alibi >= 0)
        b.op(OpKind::ids, "alibi", place::attention, {},
             {b.shared(ids.alibi, shared)}).attributes.bias = true;
    mask(ids.full_mask, false);
    mask(ids.window_mask, true);

    // `inputs_embeds` and the embedded positions are names of the base model's forward.
    if (plan.decoder_within) {
        b.hold_until_return(x);
    } else if (plan.project_in.empty()) {
        if (!plan.keeps_embeddings) b.hold_until_model_end(x);
    } else if (plan.positions.empty()) {
        x = b.linear(x, plan.project_in, plan.hidden, false, place::embedding);
        b.hold_until_model_end(x);
    }
    if (!plan.positions.empty() || plan.positions_buffered) {
        int positions = -1;
        if (plan.positions_buffered) {
            positions = b.tensor("positions", plan.hidden, Rows::positions);
            b.op(OpKind::position_embedding, "positions", place::embedding, {}, {positions});
        } else {
            positions = b.embedding(plan.positions, plan.position_rows, plan.hidden, OpKind::position_embedding);
        }
        if (plan.positions_per_token) b.set_rows(positions, Rows::tokens);
        b.hold_until_model_end(positions);
        if (!plan.project_in.empty()) {
            x = b.linear(x, plan.project_in, plan.hidden, false, place::embedding);
            b.hold_until_model_end(x);
        }
        x = b.add(x, positions, "embeddings_sum", place::embedding);
    }
    if (!plan.embedding_dropout.empty())
        x = b.dropout(x, plan.embedding_dropout, plan.embedding_dropout_p, place::embedding);

    if (plan.spread) {
        x = plan.spread(b, x);
    } else if (plan.streams > 1) {
        const int spread = b.tensor("streams", detail::checked_mul(plan.hidden, plan.streams));
        b.op(OpKind::spread_streams, "streams", place::residual, {x}, {spread});
        x = spread;
    }
    if (plan.position_axes > 0) {
        const int positions = b.tensor("position_ids", plan.position_axes);
        b.op(OpKind::ids, "position_ids", place::embedding, {}, {b.hold_until_model_end(positions)});
    }
    for (std::size_t table = 0; table < ids.cos.size(); ++table) {
        const Tensor& cos = shared[static_cast<std::size_t>(ids.cos[table])];
        const Tensor& sin = shared[static_cast<std::size_t>(ids.sin[table])];
        const int cos_tensor = b.shared(ids.cos[table], cos);
        const int sin_tensor = b.shared(ids.sin[table], sin);
        OpAttributes& attributes = b.op(OpKind::rotary_tables, fmt::format("rotary_emb.{}", table),
                                        place::attention, {}, {cos_tensor, sin_tensor}).attributes;
        attributes.rotary_dim = cos.width;
        attributes.rotation = plan.kinds.front().attention.rotation;
        attributes.axes = plan.position_axes;
        attributes.interleaved = plan.interleaved_axes;
    }
    if (!plan.stem_norm.empty()) x = b.norm(x, plan.stem_norm, plan.norm);
    return std::move(b).finish(x);
}

/// Between two layers: features of images join the hidden states in their places.
Block build_deep_join(const DecoderPlan& plan, const SharedTensors& ids, const std::vector<Tensor>& shared,
                      std::size_t i) {
    BlockBuilder b("deep join");
    const int x = b.input(plan.hidden);
    const int out = b.tensor("hidden states", plan.hidden);
    b.op(OpKind::add_images, "deepstack_process", place::residual, {x, b.shared(ids.deep[i], shared), b.shared(ids.places, shared)},
         {out});
    return std::move(b).finish(out);
}

/// Decoder layers, of which features of images join the first ones; the first kind is block `first`.
void add_layers(const DecoderPlan& plan, const SharedTensors& ids, Model& model, int first, const std::string& prefix) {
    std::vector<int> kinds;
    if (plan.order.empty()) kinds.assign(static_cast<std::size_t>(plan.layer_count), first);
    for (const int kind : plan.order) kinds.push_back(kind + first);
    const std::size_t joins = std::min(ids.deep.size(), kinds.size());
    for (std::size_t i = 0; i < joins; ++i) {
        model.sections.push_back({prefix, static_cast<std::int64_t>(i), {kinds[i]}, 1});
        add_section(model, "", build_deep_join(plan, ids, model.shared, i), 1);
    }
    kinds.erase(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(joins));
    for (Section& section : sections_of(kinds, prefix)) {
        section.first_index += static_cast<std::int64_t>(joins);
        model.sections.push_back(std::move(section));
    }
}

/// The routers of all layers with experts join the loss.
void add_router_loss(const DecoderPlan& plan, OpAttributes& loss) {
    for (std::size_t kind = 0; kind < plan.kinds.size(); ++kind) {
        const MlpPlan::Experts& experts = plan.kinds[kind].mlp.experts;
        if (experts.count == 0) continue;
        loss.routers += plan.order.empty()
                            ? plan.layer_count
                            : std::count(plan.order.begin(), plan.order.end(), static_cast<int>(kind));
        loss.experts = experts.count;
        loss.experts_per_token = experts.per_token;
        loss.wide_routers = experts.form == RouterForm::granite || experts.form == RouterForm::ernie;
    }
}

/// The last hidden states of the base model.
int end_of_base(BlockBuilder& b, const DecoderPlan& plan, Task task) {
    const std::string base = task == Task::base ? "" : std::string(plan.base);
    int x = b.input(detail::checked_mul(plan.hidden, plan.streams));
    b.release(x);  // the loop variable of the base model, which the final norm's result rebinds
    const int streams = x;
    if (plan.collapse) {
        b.end_base_model();  // its names are bound to streams of the end
        const auto function = b.scope();
        x = b.norm(plan.collapse(b, base, x), join(base, plan.final_norm), plan.norm);
    } else {
        if (plan.streams > 1) x = collapse_streams(b, plan, base, x);
        if (!plan.final_norm.empty()) x = b.norm(x, join(base, plan.final_norm), plan.norm);
    }
    if (plan.streams > 1 && !plan.collapse) {
        b.last_op().inputs.push_back(streams);
        b.parameter_named(join(join(base, plan.final_norm), "weight")).dtype = &dtype::fp32;
    }
    if (!plan.project_out.empty())
        x = b.linear(x, join(base, plan.project_out), plan.embedding_width, false, place::embedding);
    b.hold(x);  // `last_hidden_state` of the base model's result
    if (!plan.collapse) b.end_base_model();
    return x;
}

/// The logits of a decoder that is a model by itself, which lets go of its hidden states.
int logits_of_decoder(BlockBuilder& b, const DecoderPlan& plan) {
    const auto function = b.scope();
    const int x = end_of_base(b, plan, Task::causal_lm);
    return b.linear(x, plan.head, plan.vocabulary, plan.head_bias, place::head);
}

Block build_head(const DecoderPlan& plan, Task task, std::int64_t labels, Problem problem) {
    BlockBuilder b("head");
    int x = plan.decoder_within ? logits_of_decoder(b, plan) : end_of_base(b, plan, task);

    const int loss = b.tensor("loss", 1, Rows::one);
    if (task == Task::base) {
        b.op(OpKind::pooler_loss, "loss", place::loss, {x}, {loss});
        return std::move(b).finish(-1);
    }
    if (task == Task::classification) {
        // Scores of every token, of which those of the last one are copied out [transformers
        // modeling_layers.py GenericForSequenceClassification.forward].
        const int scores = b.hold(b.linear(x, "score", labels, false, place::head));
        const int last = b.tensor("last_token", labels, Rows::batch);
        b.op(OpKind::split, "last_token", place::head, {scores}, {last});
        const int pooled = b.hold(b.tensor("pooled_logits", labels, Rows::batch));
        b.op(OpKind::concat, "pooled_logits", place::head, {last}, {pooled});
        classification_loss(b, pooled, problem);
        return std::move(b).finish(-1);
    }
    if (plan.head_is_embedding) {
        const int product = b.tensor(std::string(plan.head), plan.vocabulary);
        b.op(OpKind::linear, std::string(plan.head), place::head, {x}, {product});
        b.op(OpKind::causal_lm_loss, "loss", place::loss, {b.hold(product)}, {loss});
        return std::move(b).finish(-1);
    }
    if (plan.head_input_scale) x = b.hold(b.scale(x, "logits_scaling", place::head));
    int logits = plan.decoder_within ? x : b.linear(x, plan.head, plan.vocabulary, plan.head_bias, place::head);
    if (plan.tied)
        b.parameter_named(join(plan.head, "weight")).tied_to =
            join(join(plan.base, plan.embedding), "weight");
    if (plan.head_scale) logits = b.scale(logits, "logit_scale", place::head);
    if (plan.head_softcap > 0) {
        const int capped = b.tensor("softcap", plan.vocabulary);
        b.op(OpKind::softcap, "softcap", place::head, {logits}, {capped}).attributes.softcap =
            plan.head_softcap;
        logits = capped;
    }
    b.hold(logits);
    OpAttributes& attributes = b.op(OpKind::causal_lm_loss, "loss", place::loss, {logits}, {loss}).attributes;
    if (plan.router_loss) add_router_loss(plan, attributes);
    return std::move(b).finish(-1);
}

std::int64_t intermediate_size(const DecoderPlan& plan) {
    for (const LayerPlan& layer : plan.kinds)
        if (layer.mlp.experts.count == 0) return layer.mlp.width;
    return plan.kinds.front().mlp.experts.width;
}

}  // namespace

void assign_kinds(DecoderPlan& plan, std::vector<int> kinds) {
    std::vector<int> renumbered(plan.kinds.size(), -1);
    std::vector<LayerPlan> used;
    for (int& kind : kinds) {
        int& number = renumbered[static_cast<std::size_t>(kind)];
        if (number < 0) {
            number = static_cast<int>(used.size());
            used.push_back(plan.kinds[static_cast<std::size_t>(kind)]);
        }
        kind = number;
    }
    plan.kinds = std::move(used);
    plan.order = std::move(kinds);
}

Model build_decoder(const DecoderPlan& plan, Task task, std::int64_t labels, Problem problem) {
    Model model;
    const SharedTensors ids = declare_shared(plan, model.shared);
    const std::string base =
        task == Task::base ? std::string() : std::string(plan.base) + (plan.base.empty() ? "" : ".");

    if (plan.tower) {
        add_section(model, base, build_embeddings(plan, ids, model.shared), 1);
        plan.tower(model, ids.features);
    }
    add_section(model, plan.newline.empty() ? base : std::string(), build_stem(plan, ids, model.shared), 1);
    const auto first = static_cast<int>(model.blocks.size());
    for (const LayerPlan& layer : plan.kinds)
        model.blocks.push_back(build_decoder_layer(plan, layer, ids, model.shared));
    const std::string prefix = base + std::string(plan.layers) + ".{}.";
    if (plan.order.empty() && ids.deep.empty())
        model.sections.push_back({prefix, 0, {first}, plan.layer_count});
    else
        add_layers(plan, ids, model, first, prefix);
    if (plan.predictor_layers > 0) {
        BlockBuilder extra("predictor");
        plan.predictor_weights(extra);
        Block block = build_decoder_layer(plan, plan.kinds.front(), ids, model.shared);
        for (Parameter& parameter : std::move(extra).finish(-1).parameters)
            block.parameters.push_back(std::move(parameter));
        block.name = "multi-token predictor";
        add_section(model, base + "mtp_layers.{}.", std::move(block), plan.predictor_layers);
    }
    add_section(model, "", build_head(plan, task, labels, problem), 1);

    const AttentionPlan& a = plan.kinds.front().attention;
    model.inputs = {{"ids"}};
    if (task == Task::causal_lm) model.inputs.push_back({"labels"});
    if (task == Task::classification) model.inputs.push_back(class_labels(Rows::batch, labels, problem));
    if (plan.image_blocks || plan.window_blocks || plan.token_types) model.inputs.push_back({"token types"});
    if (plan.any_image_size) model.inputs.push_back({"pixels", Rows::patches, plan.pixel_width, nullptr});
    if (plan.size_width > 0) model.inputs.push_back({"sizes of images", Rows::images, plan.size_width});
    if (plan.position_ids)
        model.inputs.push_back({"places of patches", Rows::images, detail::checked_mul(2, model.image.patches)});
    if (model.image.rows > 0) model.inputs.push_back({"pixels", Rows::images, model.image.pixels(), nullptr});
    model.facts.hidden_size = plan.hidden;
    model.facts.layers = plan.order.empty() ? plan.layer_count
                                            : static_cast<std::int64_t>(plan.order.size());
    model.facts.heads = a.heads;
    model.facts.kv_heads = a.kv_heads;
    model.facts.head_dim = a.head_dim;
    model.facts.intermediate_size = intermediate_size(plan);
    model.facts.vocab_size = plan.vocabulary;
    model.step_unsupported = plan.step_unsupported;
    return model;
}

void note_layerdrop(ConfigReader& config, std::string_view key) {
    if (config.probability(key) > 0)
        config.note(fmt::format("{}: layers are left out at random; all of them are counted, which is an upper bound", key));
}

Result<Model> decoder_family(const Family& family, const KeyTree& config,
                             std::string_view architecture, ConfigureDecoder configure) {
    Diagnostics diagnostics;
    const std::string chosen = choose_architecture(family, config, architecture, diagnostics);
    ConfigReader reader(config, "", family.name, family.keys, diagnostics);
    DecoderPlan plan;
    configure(reader, plan);
    plan.router_loss = reader.knows("output_router_logits") && reader.flag("output_router_logits");
    const std::int64_t labels = label_count(config);
    const Problem problem = problem_of(config, labels, diagnostics);
    if (!diagnostics.empty()) return diagnostics;

    Task task = Task::causal_lm;
    if (chosen.ends_with("ForSequenceClassification"))
        task = Task::classification;
    else if (chosen.ends_with("Model") && !chosen.ends_with("LMHeadModel") && !plan.base_has_head)
        task = Task::base;
    Model model = build_decoder(plan, task, labels, problem);
    note_origin(model, family, chosen, reader);
    return model;
}

}  // namespace membudget
