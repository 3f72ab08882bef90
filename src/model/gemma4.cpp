// Gemma 4: Gemma's layers with heads of two widths, experts beside the
// feed-forward network, embeddings of each layer, and last layers that use the keys and values of earlier ones.

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "model/gemma4.hpp"
#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// A tensor of `DecoderPlan::carried`.
int carried(BlockBuilder& b, const std::vector<Tensor>& tensors, std::size_t index) {
    return b.shared(static_cast<int>(index), tensors[index]);
}

/// The experts that run beside each layer's feed-forward network, and the norms around both
/// [models/gemma4/modeling_gemma4.py Gemma4TextDecoderLayer].
BuildBeside expert_network(ConfigReader& config, std::int64_t hidden, Act act) {
    MlpPlan mlp;
    read_experts(config, mlp, "num_experts", "moe_intermediate_size");
    return [hidden, act, e = mlp.experts](BlockBuilder& b, int residual, int dense) {
        const int own = b.hold(b.norm(b.hold(dense), "post_feedforward_layernorm_1", kGemma4Norm));
        const int routed = b.tensor("experts", hidden);
        {
            const auto name = b.scope();  // `hidden_states_2`, until the experts return
            const int x = b.hold(b.norm(residual, "pre_feedforward_layernorm_2", kGemma4Norm));
            std::vector<int> parameters = b.linear_weights("router.proj", hidden, e.count, false, Component::router);
            parameters.push_back(b.parameter("router.scale", {hidden}, Component::router));
            parameters.push_back(b.parameter("router.per_expert_scale", {e.count}, Component::router));
            parameters.push_back(b.parameter("experts.gate_up_proj", {e.count, 2 * e.width, hidden}, Component::experts));
            parameters.push_back(b.parameter("experts.down_proj", {e.count, hidden, e.width}, Component::experts));
            OpAttributes& attributes =
                b.op(OpKind::moe, "experts", place::mlp, {x, residual}, {routed}, std::move(parameters)).attributes;
            attributes.experts = e.count;
            attributes.experts_per_token = e.per_token;
            attributes.expert_width = e.width;
            attributes.act = act;
            attributes.router = RouterForm::gemma4;
        }
        const int other = b.hold(b.norm(routed, "post_feedforward_layernorm_2", kGemma4Norm));
        return b.add(own, other, "experts_sum", place::mlp);
    };
}

/// Embeddings of each layer and a projection of the words' own, added up [models/gemma4/modeling_gemma4.py
/// Gemma4TextModel.get_per_layer_inputs, project_per_layer_inputs]; tokens x layers x width.
void make_layer_inputs(BlockBuilder& b, const LayerInputs& inputs, const Tensor& as, int embeds) {
    constexpr Place here{place::embedding.term, Component::other};
    const auto of_layers = [&](std::string name) {
        const int out = b.tensor(std::move(name), inputs.width);
        b.set_times(out, inputs.layers);
        return out;
    };
    const auto scaled = [&](int x, std::string name) {
        const int out = of_layers(name);
        b.op(OpKind::scale, std::move(name), here, {x}, {out});
        return out;
    };
    const auto function = b.scope();
    const int looked_up = b.embedding("embed_tokens_per_layer", inputs.vocabulary, inputs.all());
    b.last_op().attributes.own_ids = inputs.of_gemma3n;
    const int words = b.hold(scaled(looked_up, "embed_tokens_per_layer.embed_scale"));
    const int projected = scaled(b.linear(embeds, "per_layer_model_projection", inputs.all(), false, here),
                                 "per_layer_model_projection_scale");
    b.last_op().attributes.in_place = inputs.of_gemma3n;
    const int normed = b.hold(b.norm(projected, "per_layer_projection_norm", kGemma4Norm, here));
    const int sum = b.add(normed, words, "per_layer_inputs_sum", here);
    b.share(scaled(sum, "per_layer_input_scale"), as.shared, as);
    for (const std::string_view name : {"embed_tokens_per_layer", "per_layer_model_projection", "per_layer_projection_norm"})
        b.parameter_named(join(name, "weight")).registered_last = true;
}

}  // namespace

int gated_layer_input(BlockBuilder& b, const LayerInputs& inputs, int x, int own) {
    constexpr Place here = place::other;
    int y = b.linear(x, "per_layer_input_gate", inputs.width, false, here);
    y = b.activation(y, "act_fn", inputs.act, here);
    const int product = b.tensor("per_layer_input_product", inputs.width);
    b.op(OpKind::multiply, "per_layer_input_product", here, {y, own}, {product});
    y = b.linear(product, "per_layer_projection", inputs.hidden, false, here);
    return b.norm(y, "post_per_layer_input_norm", kGemma4Norm);
}

LayerInputs read_layer_inputs(ConfigReader& config, DecoderPlan& plan, LayerPlan& layer, bool of_gemma3n) {
    LayerInputs inputs;
    inputs.of_gemma3n = of_gemma3n;
    inputs.width = config.count_or("hidden_size_per_layer_input", 0, kLargestWidth);
    inputs.vocabulary = config.size("vocab_size_per_layer_input", kLargestVocabulary);
    inputs.layers = plan.layer_count;
    inputs.hidden = plan.hidden;
    inputs.act = layer.mlp.act;
    if (inputs.width == 0) return inputs;
    declare_tensor(plan.carried, "per_layer_inputs", inputs.width, Rows::tokens);
    plan.carried.back().times = inputs.layers;
    plan.carried.back().held = Held::until_scope_end;  // a layer gets its part by position
    const Tensor all = plan.carried.back();
    plan.beside_embeddings = [=](BlockBuilder& b, int embeds) { make_layer_inputs(b, inputs, all, embeds); };
    layer.input.take = [=](BlockBuilder& b) {
        const int own = b.hold(b.tensor("per_layer_input", inputs.width));
        b.op(OpKind::split, "per_layer_input", place::other, {b.shared(all.shared, all)}, {own}).attributes.sliced = true;
        return own;
    };
    layer.input.use = [=](BlockBuilder& b, int x, int own) {
        b.hold(x);  // `residual`
        return b.add(x, gated_layer_input(b, inputs, x, own), "per_layer_residual");
    };
    return inputs;
}

std::vector<Gemma4Kind> read_gemma4_kinds(ConfigReader& config, std::int64_t layers, bool of_gemma3n) {
    std::vector<bool> full = layers_of_type(config, layers, "full_attention", "sliding_attention");
    if (full.empty())
        for (std::int64_t i = 0; i < layers; ++i) full.push_back((i + 1) % (of_gemma3n ? 5 : 6) == 0);
    if (!of_gemma3n) full.back() = true;  // whatever the file says
    const std::int64_t shared = config.count_or("num_kv_shared_layers", 0);
    std::vector<Gemma4Kind> out;
    for (std::size_t i = 0; i < full.size(); ++i) out.push_back({full[i], static_cast<std::int64_t>(i) < layers - shared});
    if (of_gemma3n && shared == 0) return out;
    for (const bool type : {false, true}) {
        const auto last = std::find_if(out.rbegin(), out.rend(),
                                       [type](const Gemma4Kind& kind) { return kind.own_keys && kind.full == type; });
        if (last != out.rend()) last->stores = true;
    }
    return out;
}

std::optional<SharedKeys> share_gemma4_keys(DecoderPlan& plan, const std::vector<Gemma4Kind>& kinds, bool full,
                                     const AttentionWeights& sizes) {
    const auto of_type = [&](bool own) {
        return std::any_of(kinds.begin(), kinds.end(),
                           [&](const Gemma4Kind& kind) { return kind.full == full && kind.own_keys == own; });
    };
    if (!of_type(false)) return std::nullopt;
    if (!of_type(true)) plan.step_unsupported = "no layer makes the keys and values that layers share (num_kv_shared_layers)";
    const auto declare = [&](const char* name) {
        declare_tensor(plan.carried, name, detail::checked_mul(sizes.kv_heads, sizes.head_dim), Rows::tokens);
        plan.carried.back().in_dictionary = true;
        return plan.carried.size() - 1;
    };
    const std::size_t keys = declare(full ? "shared keys" : "shared keys of windows");
    return SharedKeys{keys, declare(full ? "shared values" : "shared values of windows")};
}

namespace {

DecoderPlan read_gemma4(ConfigReader& config) {
    DecoderPlan plan;
    read_decoder_sizes(config, plan);
    plan.norm = kGemma4Norm;
    plan.embedding_scale = true;
    plan.head_softcap = config.number("final_logit_softcapping");
    if (config.raw("per_layer_config") != nullptr)
        config.unsupported("per_layer_config", "expected the keys of a published file");
    const std::int64_t hidden = plan.hidden;
    Gemma4Attention windowed;
    windowed.sizes.hidden = hidden;
    windowed.sizes.heads = config.size("num_attention_heads", kLargestCount);
    windowed.sizes.kv_heads = config.size("num_key_value_heads", kLargestCount);
    windowed.sizes.head_dim = config.size("head_dim");
    windowed.sizes.bias = config.flag("attention_bias");
    windowed.dropout = config.probability("attention_dropout");
    Gemma4Attention full = windowed;
    full.sizes.head_dim = config.size("global_head_dim");
    // Keys are values too in layers without a window.
    if (config.flag("attention_k_eq_v")) {
        full.values = false;
        full.sizes.kv_heads = config.size_or("num_global_key_value_heads", full.sizes.kv_heads, kLargestCount);
    }

    LayerPlan base;
    base.arrangement = Arrangement::sandwich;
    base.norms[2] = "pre_feedforward_layernorm";
    base.norms[3] = "post_feedforward_layernorm";
    base.attention.heads = windowed.sizes.heads;
    base.attention.kv_heads = windowed.sizes.kv_heads;
    base.attention.head_dim = windowed.sizes.head_dim;
    base.mlp.width = config.size("intermediate_size");
    base.mlp.act = config.activation("hidden_activation");
    if (config.flag("enable_moe_block")) base.beside_residual = expert_network(config, hidden, base.mlp.act);
    base.scales_output = true;
    (void)read_layer_inputs(config, plan, base, false);
    const bool wide = config.flag("use_double_wide_mlp");
    const std::int64_t window = config.size("sliding_window");
    const std::vector<Gemma4Kind> kinds = read_gemma4_kinds(config, plan.layer_count, false);
    windowed.shared = share_gemma4_keys(plan, kinds, false, windowed.sizes);
    full.shared = share_gemma4_keys(plan, kinds, true, full.sizes);
    plan_layers(plan, kinds, [&](const Gemma4Kind& kind) {
        LayerPlan layer = base;
        Gemma4Attention attention = kind.full ? full : windowed;
        attention.own_keys = kind.own_keys;
        attention.stores = kind.stores;
        if (kind.own_keys && !kind.stores) attention.shared.reset();
        layer.attention.head_dim = attention.sizes.head_dim;
        layer.attention.kv_heads = attention.sizes.kv_heads;
        layer.attention.rotary = kind.full == kinds.front().full ? 0 : 1;
        layer.attention.window = kind.full ? 0 : window;
        layer.attention.build = [attention, tensors = plan.carried](BlockBuilder& b, int x, int cos, int sin, int mask) {
            return gemma4_attention(b, attention, tensors, x, cos, sin, mask);
        };
        if (wide && !kind.own_keys) layer.mlp.width *= 2;
        return layer;
    });
    if (config.text("use_bidirectional_attention") == "all")
        plan.step_unsupported = "attention in both directions is not modelled yet";
    return plan;
}

/// Features of a tower, as the decoder reads them.
void add_embedder(Parts& parts, std::string_view name, std::int64_t in, std::int64_t out) {
    parts.add(fmt::format("model.{}.", name), "projector", [&](BlockBuilder& b) {
        b.linear_weights("embedding_projection", in, out, false, kVision);
    });
}

/// A conformer [transformers models/gemma4/modeling_gemma4.py Gemma4AudioModel].
void add_audio(ConfigReader& outer, Parts& parts, std::int64_t text_hidden) {
    ConfigReader config = outer.nested(
        "audio_config", "gemma4_audio",
        "hidden_size=1024 num_hidden_layers=12 num_attention_heads=8 subsampling_conv_channels=[128,32] "
        "conv_kernel_size=5 output_proj_dims=1536");
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", hidden, "num_attention_heads", heads);
    const std::int64_t kernel = config.size("conv_kernel_size", kLargestCount);
    const std::int64_t out = config.size("output_proj_dims");
    std::vector<std::int64_t> channels = config.sizes("subsampling_conv_channels");
    if (channels.size() != 2 || channels[0] < 4 || channels[1] < 1) {
        config.invalid("subsampling_conv_channels", "expected the channels of two convolutions");
        channels = {4, 1};
    }
    parts.add("model.audio_tower.", "subsampling", [&](BlockBuilder& b) {
        const std::string layer = "subsample_conv_projection.layer";
        convolution(b, layer + "0.conv", channels[0], 1, {3, 3}, false);
        b.norm_weights(layer + "0.norm", channels[0], norms::rms, kVision);
        convolution(b, layer + "1.conv", channels[1], channels[0], {3, 3}, false);
        b.norm_weights(layer + "1.norm", channels[1], norms::rms, kVision);
        b.linear_weights("subsample_conv_projection.input_proj_linear", channels[0] / 4 * channels[1], hidden, false,
                         kVision);
        b.linear_weights("output_proj", hidden, out, true, kVision);
    });
    parts.add("model.audio_tower.layers.{}.", "audio layer", [&](BlockBuilder& b) {
        for (const std::string module : {"feed_forward1", "feed_forward2"}) {
            plain_mlp_weights(b, module, "ffw_layer_1.linear", "ffw_layer_2.linear", hidden, 4 * hidden, false, kVision);
            b.norm_weights(module + ".pre_layer_norm", hidden, norms::rms, kVision);
            b.norm_weights(module + ".post_layer_norm", hidden, norms::rms, kVision);
        }
        b.parameter("self_attn.per_dim_scale", {hidden / heads}, kVision);
        for (const std::string_view name : {"q_proj.linear", "k_proj.linear", "v_proj.linear", "post.linear",
                                            "relative_k_proj"})
            b.linear_weights(join("self_attn", name), hidden, hidden, false, kVision);
        b.linear_weights("lconv1d.linear_start.linear", hidden, 2 * hidden, false, kVision);
        b.linear_weights("lconv1d.linear_end.linear", hidden, hidden, false, kVision);
        convolution(b, "lconv1d.depthwise_conv1d", hidden, 1, {kernel}, false);
        norms_weights(b, {"lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out"},
                      hidden, norms::rms, kVision);
    }, config.size("num_hidden_layers", kLargestCount));
    add_embedder(parts, "embed_audio", out, text_hidden);
}

}  // namespace

int gemma4_attention(BlockBuilder& b, const Gemma4Attention& a, const std::vector<Tensor>& tensors, int x, int cos, int sin,
                     int mask) {
    const Place here = a.of_patches ? in_vision(place::attention) : place::attention;
    const AttentionWeights& s = a.sizes;
    const auto function = b.scope();
    const auto project = [&](int from, std::string_view name, std::int64_t width) {
        return b.linear(from, join(join("self_attn", name), a.inner), width, s.bias, here);
    };
    const auto normed = [&](int from, std::string_view name, const Norm& norm, std::int64_t heads) {
        const int out = b.norm(from, join("self_attn", name), norm, here);
        b.normalise_heads(heads, {s.head_dim});
        return out;
    };
    const auto rotated = [&](int from, std::string_view name) {
        const int out = b.tensor(join("self_attn", name), b.width(from), b.rows(from));
        OpAttributes& rotary = b.op(OpKind::rotary, join("self_attn", name), here, {from, cos, sin}, {out}).attributes;
        if (a.of_patches) rotary.rotation = Rotation::axial;
        return b.hold(out);
    };
    int q = project(x, "q_proj", s.heads * s.head_dim);
    q = rotated(normed(q, "q_norm", kGemma4Norm, s.heads), "query");
    int k = -1, v = -1;
    if (!a.own_keys) {
        k = carried(b, tensors, a.shared->keys);
        v = carried(b, tensors, a.shared->values);
    } else {
        const std::int64_t width = s.kv_heads * s.head_dim;
        const auto key = [&] { return rotated(normed(k, "k_norm", kGemma4Norm, s.kv_heads), "key"); };
        k = project(x, "k_proj", width);
        if (a.keys_first) k = key();
        v = a.values ? project(x, "v_proj", width) : k;
        if (!a.keys_first) k = key();
        v = b.hold(normed(v, "v_norm", kGemma4NormAlone, s.kv_heads));
        if (a.shared) {
            b.share(k, static_cast<int>(a.shared->keys), tensors[a.shared->keys]);
            b.share(v, static_cast<int>(a.shared->values), tensors[a.shared->values]);
        }
    }
    OpAttributes attributes;
    attributes.heads = s.heads;
    attributes.kv_heads = s.kv_heads;
    attributes.head_dim = attributes.value_dim = s.head_dim;
    attributes.rotates = attributes.unbound = true;
    attributes.causal = !a.of_patches;
    attributes.dropout = a.dropout;
    attributes.stored = a.stores;
    const int context = b.tensor("self_attn.attention", s.heads * s.head_dim, b.rows(x));
    std::vector<int> inputs{q, k, v};
    if (mask >= 0) inputs.push_back(mask);
    b.op(OpKind::attention, "self_attn.attention", here, std::move(inputs), {context}).attributes = attributes;
    return project(context, "o_proj", s.hidden);
}

void configure_gemma4_text(ConfigReader& config, Parts& parts) { parts.add_decoder(read_gemma4(config), true); }

void configure_gemma4(ConfigReader& config, Parts& parts) {
    ConfigReader text = config.nested("text_config", "gemma4_text", families().find("gemma4_text")->keys);
    DecoderPlan plan = read_gemma4(text);
    plan.base = "model.language_model";
    if (config.has("tie_word_embeddings")) plan.tied = config.flag("tie_word_embeddings");
    const auto has = [&](std::string_view key) { return config.raw(key) != nullptr && !config.raw(key)->is_null(); };
    if (!has("vision_config")) {
        if (has("audio_config")) add_audio(config, parts, plan.hidden);
        parts.add_decoder(plan);
        parts.model().step_unsupported = "without a vision tower it is not modelled yet: see Gemma4ForCausalLM";
        return;
    }
    plan.window_blocks = text.text("use_bidirectional_attention") == "vision";
    plan_gemma4_tower(config, plan, config.size("vision_soft_tokens_per_image", kLargestCount));
    if (!plan.carried.empty() && plan.beside_embeddings && plan.step_unsupported.empty())
        plan.step_unsupported = "inputs of each layer (hidden_size_per_layer_input) beside images are not modelled yet";
    if (has("audio_config")) add_audio(config, parts, plan.hidden);
    if (has("audio_config") && plan.step_unsupported.empty()) plan.step_unsupported = "its audio tower is not modelled yet";
    parts.add_decoder(plan);
    if (plan.step_unsupported.empty())
        parts.model().notes.push_back(
            fmt::format("each image has all the patches that the processor fills it up to, of {} tokens: one of another shape "
                        "has fewer, and a mask of padding beside them, which is not counted",
                        plan.image_tokens));
}

}  // namespace membudget
