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

void read_heads(ConfigReader& config, std::int64_t hidden, AttentionPlan& attention) {
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.knows("num_key_value_heads")
                             ? config.size_or("num_key_value_heads", attention.heads, kLargestCount)
                             : attention.heads;
    config.divides("num_attention_heads", attention.heads, "num_key_value_heads",
                   attention.kv_heads);
    const bool given = config.knows("head_dim") && config.raw("head_dim") != nullptr;
    attention.head_dim = config.knows("head_dim") ? config.size_or("head_dim", 0) : 0;
    if (attention.head_dim == 0) {
        if (!given) config.divides("hidden_size", hidden, "num_attention_heads", attention.heads);
        attention.head_dim = std::max<std::int64_t>(1, hidden / attention.heads);
    }
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
    layer.mlp.act =
        config.activation(config.knows("hidden_act") ? "hidden_act" : "hidden_activation");
}

void alternate_windows(DecoderPlan& plan, const std::vector<bool>& windowed, std::int64_t window) {
    const bool any = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
    const bool all = std::find(windowed.begin(), windowed.end(), false) == windowed.end();
    if (!any) return;
    if (all) {
        plan.layer().attention.window = window;
        return;
    }
    plan.kinds.push_back(plan.layer());
    plan.kinds[0].attention.window = window;
    plan.order.clear();
    for (const bool windows : windowed) plan.order.push_back(windows ? 0 : 1);
}

std::vector<bool> windowed_layers(ConfigReader& config, std::int64_t layers,
                                  bool (*derived)(std::int64_t layer, std::int64_t parameter),
                                  std::int64_t parameter) {
    std::vector<bool> out;
    const std::vector<std::string> types = config.texts("layer_types");
    if (types.empty()) {
        for (std::int64_t layer = 0; layer < layers; ++layer) out.push_back(derived(layer, parameter));
        return out;
    }
    if (static_cast<std::int64_t>(types.size()) != layers && config.diagnostics().empty())
        config.invalid("layer_types", "expected one entry per layer (" + std::to_string(layers) +
                                          "); got " + std::to_string(types.size()));
    for (const std::string& type : types) {
        if (type != "sliding_attention" && type != "full_attention")
            config.unsupported("layer_types",
                               "expected 'full_attention' or 'sliding_attention'; got '" + type + "'");
        out.push_back(type == "sliding_attention");
    }
    return out;
}

void configure_llama(ConfigReader& config, DecoderPlan& plan) { read_llama(config, plan); }

void configure_mistral(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.window = config.size_or("sliding_window", 0);
}

/// `use_sliding_window` turns windows on from layer `max_window_layers` upwards.
void read_qwen_windows(ConfigReader& config, DecoderPlan& plan) {
    const std::int64_t window =
        config.flag("use_sliding_window") ? config.size_or("sliding_window", 0) : 0;
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
    read_qwen_windows(config, plan);
}

void configure_qwen3(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qk_norm = QkNorm::per_head;
    read_qwen_windows(config, plan);
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
    const auto windowed = windowed_layers(
        config, plan.layer_count,
        [](std::int64_t index, std::int64_t period) { return (index + 1) % period != 0; }, pattern);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_gemma2(ConfigReader& config, DecoderPlan& plan) { read_gemma2(config, plan, 2); }

}  // namespace membudget
