#include "model/llama_like.hpp"

#include <algorithm>

namespace membudget {
namespace {

bool knows_and_sets(ConfigReader& config, std::string_view key) {
    return config.knows(key) && config.flag(key);
}

}  // namespace

void read_decoder_sizes(ConfigReader& config, DecoderPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.tied = config.flag("tie_word_embeddings");
}

void read_heads(ConfigReader& config, std::int64_t hidden, AttentionPlan& attention,
                Remainder remainder) {
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.knows("num_key_value_heads")
                             ? config.size_or("num_key_value_heads", attention.heads, kLargestCount)
                             : attention.heads;
    config.divides("num_attention_heads", attention.heads, "num_key_value_heads",
                   attention.kv_heads);
    attention.head_dim = config.knows("head_dim") ? config.size_or("head_dim", 0) : 0;
    if (attention.head_dim == 0) {
        if (remainder == Remainder::refused)
            config.divides("hidden_size", hidden, "num_attention_heads", attention.heads);
        attention.head_dim = std::max<std::int64_t>(1, hidden / attention.heads);
    }
}

std::int64_t read_rotary_dim(ConfigReader& config, std::int64_t head_dim,
                             double default_fraction) {
    double fraction = config.number("partial_rotary_factor", default_fraction);
    fraction = config.number_in("rope_parameters", "partial_rotary_factor", fraction);
    if (fraction <= 0 || fraction > 1) {
        config.invalid("partial_rotary_factor", "expected a fraction above 0 and at most 1");
        return head_dim;
    }
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(head_dim) * fraction));
}

std::int64_t read_layer_rotary_dim(ConfigReader& config, std::string_view type, std::int64_t head_dim, double fraction) {
    const KeyTree* const all = config.raw("rope_parameters");
    const KeyTree* const own = all != nullptr && all->is(KeyTree::Kind::object) ? all->find(type) : nullptr;
    if (own != nullptr || all == nullptr) {
        const KeyTree* const given = own != nullptr ? own->find("partial_rotary_factor") : nullptr;
        if (own != nullptr) fraction = given != nullptr && !given->is_null() ? given->number() : 1;
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(head_dim) * fraction), 1, head_dim);
    }
    return read_rotary_dim(config, head_dim, fraction);
}

void read_llama(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan& layer = plan.layer();
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.bias = knows_and_sets(config, "attention_bias");
    layer.attention.output_bias = layer.attention.bias;
    layer.attention.dropout = config.probability("attention_dropout");
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.bias = knows_and_sets(config, "mlp_bias");
    for (const std::string_view key : {"hidden_act", "hidden_activation"})
        if (config.knows(key)) layer.mlp.act = config.activation(key);
}

void alternate_windows(DecoderPlan& plan, const std::vector<bool>& windowed, std::int64_t window) {
    if (windowed.empty()) return;
    const std::size_t count = plan.kinds.size();
    std::vector<int> kinds;
    for (std::size_t i = 0; i < windowed.size(); ++i) {
        const int kind = i < plan.order.size() ? plan.order[i] : 0;
        kinds.push_back(windowed[i] ? kind + static_cast<int>(count) : kind);
    }
    for (std::size_t i = 0; i < count; ++i) {
        plan.kinds.push_back(plan.kinds[i]);
        plan.kinds.back().attention.window = window;
    }
    assign_kinds(plan, std::move(kinds));
}

std::vector<std::string> layer_words(ConfigReader& config, std::string_view key, std::int64_t layers,
                                     std::int64_t trailing) {
    std::vector<std::string> words = config.texts(key);
    if (static_cast<std::int64_t>(words.size()) == layers + trailing) words.resize(static_cast<std::size_t>(layers));
    if (!words.empty() && static_cast<std::int64_t>(words.size()) != layers) {
        if (config.diagnostics().empty())
            config.invalid(key, "expected one entry per layer (" + std::to_string(layers) + "); got " +
                                    std::to_string(words.size()));
        words.resize(static_cast<std::size_t>(layers));
    }
    return words;
}

std::vector<bool> layers_of_type(ConfigReader& config, std::int64_t layers, std::string_view yes,
                                 std::string_view no) {
    std::vector<bool> out;
    for (const std::string& type : layer_words(config, "layer_types", layers)) {
        if (type != yes && type != no && !type.empty())
            config.unsupported("layer_types", "expected '" + std::string(no) + "' or '" + std::string(yes) +
                                                  "'; got '" + type + "'");
        out.push_back(type == yes);
    }
    return out;
}

std::vector<bool> windowed_layers(ConfigReader& config, std::int64_t layers,
                                  bool (*derived)(std::int64_t layer, std::int64_t parameter),
                                  std::int64_t parameter) {
    std::vector<bool> out = layers_of_type(config, layers, "sliding_attention", "full_attention");
    if (!out.empty()) return out;
    for (std::int64_t layer = 0; layer < layers; ++layer) out.push_back(derived(layer, parameter));
    return out;
}

void configure_llama(ConfigReader& config, DecoderPlan& plan) { read_llama(config, plan); }

void configure_mistral(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.window = config.size_or("sliding_window", 0);
}

void read_last_windows(ConfigReader& config, DecoderPlan& plan) {
    const bool windows = !config.knows("use_sliding_window") || config.flag("use_sliding_window");
    const std::int64_t window = windows ? config.size_or("sliding_window", 0) : 0;
    const std::int64_t from = config.count_or("max_window_layers", 0);
    const auto windowed = windowed_layers(
        config, plan.layer_count,
        [](std::int64_t layer, std::int64_t first) { return layer >= first; },
        window > 0 ? from : plan.layer_count);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_qwen2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.bias = true;  // q, k, v always; the class reads no key for it
    read_last_windows(config, plan);
}

void configure_qwen3(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qk_norm = QkNorm::per_head;
    read_last_windows(config, plan);
}

void configure_gemma(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::rms_one_plus;
    plan.embedding_scale = true;
    // Published files say "gelu"; the class reads that as its tanh approximation.
    if (plan.layer().mlp.act == Act::gelu) plan.layer().mlp.act = Act::gelu_tanh;
}

/// `pattern`: every so many layers one attends without a window.
void read_gemma2(ConfigReader& config, DecoderPlan& plan, std::int64_t pattern) {
    read_llama(config, plan);
    plan.norm = norms::rms_one_plus;
    plan.embedding_scale = true;
    plan.head_softcap = config.number("final_logit_softcapping");
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::sandwich;
    layer.norms[2] = "pre_feedforward_layernorm";
    layer.norms[3] = "post_feedforward_layernorm";
    layer.attention.softcap = config.number("attn_logit_softcapping");
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(config, plan.layer_count, all_but_each_last, pattern);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_gemma2(ConfigReader& config, DecoderPlan& plan) { read_gemma2(config, plan, 2); }


void configure_gemma3(ConfigReader& config, DecoderPlan& plan) {
    read_gemma2(config, plan, config.size("sliding_window_pattern", kLargestCount));
    for (LayerPlan& layer : plan.kinds) {
        layer.attention.qk_norm = QkNorm::per_head;
        layer.attention.qk_norm_kind = norms::rms_one_plus;
        // Layers with a window rotate by tables of their own base frequency.
        layer.attention.rotary = layer.attention.window > 0 ? 1 : 0;
    }
}

/// Projections of query, key and value in one, gate and up in one.
void fuse(LayerPlan& layer) {
    layer.attention.qkv = "qkv_proj";
    layer.mlp.gate_up = "gate_up_proj";
}

void configure_phi3(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    fuse(layer);
    layer.attention.sliced = true;
    layer.mlp.act_name = "activation_fn";
    layer.attention.window = config.size_or("sliding_window", 0);
    const std::int64_t rotary = read_rotary_dim(config, layer.attention.head_dim, 1.0);
    // The class slices and concatenates even when all dimensions rotate.
    layer.attention.rotary_dim = rotary;
    layer.attention_dropout = "resid_attn_dropout";
    layer.mlp_dropout = "resid_mlp_dropout";
    layer.dropout = config.probability("resid_pdrop");
}

void configure_stablelm(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::layer;
    LayerPlan& layer = plan.layer();
    layer.attention.bias = config.flag("use_qkv_bias");
    layer.attention.output_bias = false;
    layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.25);
    layer.attention.rotation = Rotation::halves_named;
    layer.names_results = layer.names_first_norm = true;
    layer.mlp_dropout = "dropout";
    layer.dropout = config.probability("hidden_dropout");
    if (config.flag("use_parallel_residual")) layer.arrangement = Arrangement::parallel;
    if (config.flag("qk_layernorm")) {
        layer.attention.qk_norm = QkNorm::listed;
        layer.attention.qk_norm_kind = norms::layer_no_bias;
        layer.attention.q_norm = "q_layernorm";
        layer.attention.k_norm = "k_layernorm";
        layer.attention.norm_time = NormTime::after_projections;
    }
}

void configure_cohere(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::layer_unfused;
    plan.head_scale = true;
    LayerPlan& layer = plan.layer();
    layer.attention.rotation = Rotation::pairs_wide;
    layer.arrangement = Arrangement::parallel;
    if (knows_and_sets(config, "use_qk_norm")) {
        layer.attention.qk_norm = QkNorm::each_head;
        layer.attention.qk_norm_kind = norms::layer_unfused;
    }
}

void configure_cohere2(ConfigReader& config, DecoderPlan& plan) {
    configure_cohere(config, plan);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(config, plan.layer_count, all_but_each_last,
                                          config.size("sliding_window_pattern", kLargestCount));
    if (window > 0) alternate_windows(plan, windowed, window);
    // Only layers with a window rotate.
    for (LayerPlan& layer : plan.kinds)
        if (layer.attention.window == 0) layer.attention.rotary = -1;
}

void configure_olmo(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    // OlmoLayerNorm: in fp32, cast back, without parameters.
    plan.norm = {OpKind::layer_norm, NormStyle::wide_product, false, false};
    plan.layer().attention.rotation = Rotation::halves_promoted;
    plan.layer().attention.clips = config.raw("clip_qkv") != nullptr;
}

void norm_results_only(LayerPlan& layer) {
    layer.arrangement = Arrangement::inner_norm;
    layer.norms[0] = "post_attention_layernorm";
    layer.norms[1] = "post_feedforward_layernorm";
}

void configure_olmo2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    norm_results_only(layer);
    layer.attention.qk_norm = QkNorm::full;
    layer.attention.qk_norm_kind = norms::rms_wide_product;
    layer.attention.rotation = Rotation::halves_promoted;
    plan.norm = norms::rms_wide_product;
}

void configure_olmo3(ConfigReader& config, DecoderPlan& plan) {
    configure_olmo2(config, plan);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(config, plan.layer_count, all_but_each_last, 4);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_glm(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.attention.output_bias = false;
    layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.5);
    layer.attention.rotation = Rotation::pairs;
    layer.mlp.gate_up = "gate_up_proj";
    layer.mlp.act_name = "activation_fn";
}

void configure_glm4(ConfigReader& config, DecoderPlan& plan) {
    configure_glm(config, plan);
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::sandwich;
    layer.norms[1] = "post_self_attn_layernorm";
    layer.norms[2] = "post_attention_layernorm";
    layer.norms[3] = "post_mlp_layernorm";
}

void configure_granite(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.embedding_scale = plan.scales_outside = true;
    plan.head_scale = true;
    plan.layer().scales_results = true;
}

void configure_smollm3(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    const std::vector<std::int64_t> given = config.sizes("no_rope_layers");
    const std::int64_t interval = config.size("no_rope_layer_interval", kLargestCount);
    if (!given.empty() && static_cast<std::int64_t>(given.size()) != plan.layer_count) {
        if (config.diagnostics().empty())
            config.invalid("no_rope_layers",
                           "expected one entry per layer (" + std::to_string(plan.layer_count) +
                               "); got " + std::to_string(given.size()));
        return;
    }
    // Despite its name, an entry of 1 says that the layer rotates.
    plan.kinds.push_back(plan.layer());
    plan.kinds[1].attention.rotary = -1;
    std::vector<int> kinds;
    for (std::int64_t i = 0; i < plan.layer_count; ++i) {
        const bool rotates = given.empty() ? (i + 1) % interval != 0
                                           : given[static_cast<std::size_t>(i)] != 0;
        kinds.push_back(rotates ? 0 : 1);
    }
    assign_kinds(plan, std::move(kinds));
}

void configure_minicpm(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    // The published weights have no output matrix, whatever the file says about ties.
    plan.head_is_embedding = true;
    if (!plan.tied) config.note("the output matrix is the embedding: MiniCPM has none of its own");
    plan.step_unsupported = "the ops of the MiniCPM class, which ships with its weights, are not "
                            "modelled yet";
}

void configure_internlm(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.bias = config.flag("bias");
    plan.layer().attention.output_bias = plan.layer().attention.bias;
}

void configure_internlm2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.embedding = "tok_embeddings";
    plan.head = "output";
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "attention_norm";
    layer.norms[1] = "ffn_norm";
    layer.attention.module = "attention";
    layer.attention.qkv = "wqkv";
    layer.attention.o = "wo";
    layer.attention.bias = config.flag("bias");
    layer.attention.output_bias = layer.attention.bias;
    layer.mlp.module = "feed_forward";
    layer.mlp.gate = "w1";
    layer.mlp.up = "w3";
    layer.mlp.down = "w2";
    plan.step_unsupported = "the ops of the InternLM 2 class, which ships with its weights, are not "
                            "modelled yet";
}

void configure_mimo(ConfigReader& config, DecoderPlan& plan) {
    configure_qwen2(config, plan);
    plan.predictor_layers = config.count_or("num_nextn_predict_layers", 0);
    plan.predictor_weights = [hidden = plan.hidden](BlockBuilder& b) {
        for (const std::string_view norm :
             {"token_layernorm", "hidden_layernorm", "final_layernorm"})
            b.norm_weights(norm, hidden, norms::rms);
        b.linear_weights("input_proj", 2 * hidden, hidden, false, Component::other);
    };
    plan.step_unsupported = "the multi-token heads of the MiMo class are not modelled yet";
}

void configure_qwen(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "transformer";
    plan.embedding = "wte";
    plan.layers = "h";
    plan.final_norm = "ln_f";
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "ln_1";
    layer.norms[1] = "ln_2";
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.module = "attn";
    layer.attention.qkv = "c_attn";
    layer.attention.o = "c_proj";
    layer.attention.bias = true;
    layer.attention.output_bias = !config.flag("no_bias");
    layer.mlp.gate = "w2";
    layer.mlp.up = "w1";
    layer.mlp.down = "c_proj";
    layer.mlp.bias = layer.attention.output_bias;
    // The file gives the width of gate and up together.
    layer.mlp.width = std::max<std::int64_t>(1, config.size("intermediate_size") / 2);
    plan.step_unsupported = "the ops of the Qwen 1 class, which ships with its weights, are not "
                            "modelled yet";
}

void configure_chatglm(ConfigReader& config, DecoderPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.base = "transformer";
    plan.embedding = "embedding.word_embeddings";
    plan.layers = "encoder.layers";
    plan.final_norm = config.flag("post_layer_norm") ? "encoder.final_layernorm" : "";
    plan.head = "transformer.output_layer";
    plan.base_has_head = true;
    plan.norm = config.flag("rmsnorm") ? norms::rms : norms::layer;
    LayerPlan& layer = plan.layer();
    AttentionPlan& attention = layer.attention;
    attention.module = "self_attention";
    attention.qkv = "query_key_value";
    attention.o = "dense";
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.flag("multi_query_attention")
                             ? config.size("multi_query_group_num", kLargestCount)
                             : attention.heads;
    attention.head_dim = config.size("kv_channels");
    attention.output_bias = config.flag("add_bias_linear");
    attention.bias = attention.output_bias || config.flag("add_qkv_bias");
    layer.mlp.gate_up = "dense_h_to_4h";
    layer.mlp.down = "dense_4h_to_h";
    layer.mlp.width = config.size("ffn_hidden_size");
    layer.mlp.bias = attention.output_bias;
    plan.step_unsupported = "the ops of the ChatGLM class, which ships with its weights, are not "
                            "modelled yet";
}

void configure_baichuan(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qkv = "W_pack";
    plan.step_unsupported = "the ops of the Baichuan class, which ships with its weights, are not "
                            "modelled yet";
}

void configure_nemotron(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = {OpKind::layer_norm, NormStyle::one_plus, true, true};
    LayerPlan& layer = plan.layer();
    layer.mlp.gated = false;
    layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.5);
}

}  // namespace membudget
