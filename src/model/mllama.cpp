// Llama 3.2 Vision, of which the parameters are known: some layers of the decoder attend to an image, whose
// tower reads it in tiles [transformers models/mllama/modeling_mllama.py].

#include <algorithm>

#include "model/llama_like.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

constexpr std::string_view kText =
    "vocab_size=128256 hidden_size=4096 hidden_act=silu num_hidden_layers=40 num_attention_heads=32 "
    "num_key_value_heads=8 intermediate_size=14336 cross_attention_layers=[3,8,13,18,23,28,33,38] "
    "tie_word_embeddings=false attention_dropout=0.0";
constexpr std::string_view kTower =
    "hidden_size=1280 num_hidden_layers=32 num_global_layers=8 attention_heads|num_attention_heads=16 num_channels=3 "
    "intermediate_size=5120 vision_output_dim=7680 image_size=448 patch_size=14 max_num_tiles=4 "
    "supported_aspect_ratios";

/// The decoder, whose table of words has rows for eight tokens that its head does not know.
void read_text_decoder(ConfigReader& config, DecoderPlan& plan) {
    constexpr std::int64_t kTokensOfImages = 8;
    read_llama(config, plan);
    plan.tied = false;
    plan.embedding_rows = plan.vocabulary + kTokensOfImages;
    LayerPlan cross = plan.layer();
    const AttentionPlan& a = plan.layer().attention;
    const std::int64_t hidden = plan.hidden, heads = a.heads, kv_heads = a.kv_heads, head_dim = a.head_dim;
    cross.attention.weights = [=](BlockBuilder& b) {
        constexpr Component kind = Component::attention;
        b.linear_weights("cross_attn.q_proj", hidden, heads * head_dim, false, kind);
        b.linear_weights("cross_attn.k_proj", hidden, kv_heads * head_dim, false, kind);
        b.linear_weights("cross_attn.v_proj", hidden, kv_heads * head_dim, false, kind);
        b.linear_weights("cross_attn.o_proj", heads * head_dim, hidden, false, kind);
        b.norm_weights("cross_attn.q_norm", head_dim, norms::rms);
        b.norm_weights("cross_attn.k_norm", head_dim, norms::rms);
        for (const std::string_view gate : {"cross_attn_attn_gate", "cross_attn_mlp_gate"})
            b.parameter(std::string(gate), {1}, kind);
    };
    plan.kinds.push_back(std::move(cross));
    const std::vector<std::int64_t> crossing = config.sizes("cross_attention_layers");
    std::vector<int> kinds;
    for (std::int64_t i = 0; i < plan.layer_count; ++i)
        kinds.push_back(std::find(crossing.begin(), crossing.end(), i) != crossing.end() ? 1 : 0);
    assign_kinds(plan, std::move(kinds));
}

struct Tower {
    std::int64_t hidden = 1, width = 1;
};

void tower_layer(BlockBuilder& b, const Tower& t, bool gated) {
    if (gated)
        for (const std::string_view gate : {"gate_attn", "gate_ffn"}) b.parameter(std::string(gate), {1}, kVision);
    for (const std::string_view name : {"q_proj", "k_proj", "v_proj", "o_proj"})
        b.linear_weights(join("self_attn", name), t.hidden, t.hidden, false, kVision);
    b.linear_weights("mlp.fc1", t.hidden, t.width, true, kVision);
    b.linear_weights("mlp.fc2", t.width, t.hidden, true, kVision);
    b.norm_weights("input_layernorm", t.hidden, norms::layer, kVision);
    b.norm_weights("post_attention_layernorm", t.hidden, norms::layer, kVision);
}

/// The image tower; the width of what it makes.
std::int64_t add_tower(Parts& parts, ConfigReader& outer) {
    ConfigReader config = outer.nested("vision_config", "mllama_vision_model", kTower);
    Tower t;
    t.hidden = config.size("hidden_size");
    t.width = config.size("intermediate_size");
    config.divides("hidden_size", t.hidden, "attention_heads", config.size("attention_heads", kLargestCount));
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const std::int64_t patch = config.size("patch_size", kLargestCount);
    const std::int64_t side = config.size("image_size", kLargestCount) / patch;
    const std::int64_t positions = side * side + 1;
    const std::int64_t tiles = config.size("max_num_tiles", 64);
    // An embedding for each ratio of tiles, and for none.
    constexpr std::int64_t kUsualRatios = 8;
    const KeyTree* ratios = config.raw("supported_aspect_ratios");
    const bool listed = ratios != nullptr && ratios->is(KeyTree::Kind::array);
    const std::int64_t rows = 1 + (listed ? static_cast<std::int64_t>(ratios->items().size()) : kUsualRatios);
    const std::string root = "model.vision_model.";
    parts.add(root, "patch embedding", [&](BlockBuilder& b) {
        b.parameter("class_embedding", {t.hidden}, kVision);
        convolution(b, "patch_embedding", t.hidden, channels, {patch, patch}, false);
        b.parameter("gated_positional_embedding.gate", {1}, kVision);
        b.parameter("gated_positional_embedding.embedding", {positions, t.hidden}, kVision);
        b.parameter("gated_positional_embedding.tile_embedding.weight",
                    {rows, detail::checked_mul(tiles * positions, t.hidden)}, kVision);
        for (const std::string_view name : {"pre_tile_positional_embedding", "post_tile_positional_embedding"}) {
            b.parameter(join(name, "gate"), {1}, kVision);
            b.parameter(join(name, "embedding.weight"), {rows, tiles * t.hidden}, kVision);
        }
        b.norm_weights("layernorm_pre", t.hidden, norms::layer, kVision);
        b.norm_weights("layernorm_post", t.hidden, norms::layer, kVision);
    });
    parts.add(root + "transformer.layers.{}.", "vision layer", [&](BlockBuilder& b) { tower_layer(b, t, false); },
              config.size("num_hidden_layers", kLargestCount));
    parts.add(root + "global_transformer.layers.{}.", "gated vision layer",
              [&](BlockBuilder& b) { tower_layer(b, t, true); }, config.count_or("num_global_layers", 0));
    return config.size("vision_output_dim");
}

}  // namespace

void configure_mllama(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "mllama_text_model", kText);
    read_text_decoder(text, plan);
    plan.base = "model.language_model";
    const std::int64_t features = add_tower(parts, config);
    parts.add("model.", "projector", [&](BlockBuilder& b) {
        b.linear_weights("multi_modal_projector", features, plan.hidden, true, kVision);
    });
    parts.add_decoder(plan);
}

}  // namespace membudget
