// DeepSeek-V4, of which the parameters are known: attention over one key-value head that some layers compress
// (with an indexer, or more of it and without), outputs projected in groups, and several residual streams that
// each sublayer mixes (hyper-connections, arXiv:2409.19606).

#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"

namespace membudget {
namespace {

constexpr Component kAttention = Component::attention;

/// How a layer compresses its keys and values.
enum class Compression { none, indexed, heavy };

struct DeepseekV4 {
    std::int64_t hidden = 1, heads = 1, head_dim = 1, query_rank = 1;
    std::int64_t groups = 1, output_rank = 1;       ///< of the output's projection
    std::int64_t index_heads = 1, index_dim = 1;
    std::int64_t rate = 4, heavy_rate = 128;        ///< tokens that become one
    std::int64_t streams = 4;
};

void compressor_weights(BlockBuilder& b, const std::string& module, std::int64_t hidden, std::int64_t rate,
                        std::int64_t width, std::int64_t out) {
    b.parameter(join(module, "position_bias"), {rate, width}, kAttention);
    b.linear_weights(join(module, "kv_proj"), hidden, width, false, kAttention);
    b.linear_weights(join(module, "gate_proj"), hidden, width, false, kAttention);
    b.norm_weights(join(module, "kv_norm"), out, norms::rms);
}

void v4_attention_weights(BlockBuilder& b, const DeepseekV4& d, Compression compression) {
    const auto linear = [&](std::string_view name, std::int64_t in, std::int64_t out) {
        b.linear_weights(join("self_attn", name), in, out, false, kAttention);
    };
    b.parameter("self_attn.sinks", {d.heads}, kAttention);
    linear("q_a_proj", d.hidden, d.query_rank);
    b.norm_weights("self_attn.q_a_norm", d.query_rank, norms::rms);
    linear("q_b_proj", d.query_rank, d.heads * d.head_dim);
    linear("kv_proj", d.hidden, d.head_dim);
    b.norm_weights("self_attn.kv_norm", d.head_dim, norms::rms);
    linear("o_a_proj", d.heads * d.head_dim / d.groups, d.groups * d.output_rank);
    linear("o_b_proj", d.groups * d.output_rank, d.hidden);
    const std::string module = "self_attn.compressor";
    if (compression == Compression::heavy)
        compressor_weights(b, module, d.hidden, d.heavy_rate, d.head_dim, d.head_dim);
    if (compression != Compression::indexed) return;
    compressor_weights(b, module, d.hidden, d.rate, 2 * d.head_dim, d.head_dim);
    const std::string indexer = join(module, "indexer");
    compressor_weights(b, indexer, d.hidden, d.rate, 2 * d.index_dim, d.index_dim);
    b.linear_weights(join(indexer, "q_b_proj"), d.query_rank, d.index_heads * d.index_dim, false, kAttention);
    b.linear_weights(join(indexer, "scorer.weights_proj"), d.hidden, d.index_heads, false, kAttention);
}

/// What mixes the streams around a sublayer.
void connection_weights(BlockBuilder& b, std::string_view module, const DeepseekV4& d) {
    const std::int64_t mixes = (2 + d.streams) * d.streams;
    b.parameter(join(module, "fn"), {mixes, d.streams * d.hidden}, Component::other);
    b.parameter(join(module, "base"), {mixes}, Component::other);
    b.parameter(join(module, "scale"), {3}, Component::other);
}

/// The words of `layer_types`, else the numbers of `compress_ratios`, else the class's own order. Both lists may
/// go on for layers that predict further tokens.
std::vector<Compression> read_compressions(ConfigReader& config, std::int64_t layers) {
    std::vector<Compression> out;
    for (const std::string& word : config.texts("layer_types")) {
        if (word == "compressed_sparse_attention") out.push_back(Compression::indexed);
        else if (word == "heavily_compressed_attention") out.push_back(Compression::heavy);
        else out.push_back(Compression::none);
    }
    if (out.empty())
        for (const std::int64_t ratio : config.sizes("compress_ratios")) {
            if (ratio != 0 && ratio != 4 && ratio != 128)
                config.unsupported("compress_ratios", "expected ratios of 0, 4 and 128");
            out.push_back(ratio == 0 ? Compression::none : ratio == 4 ? Compression::indexed : Compression::heavy);
        }
    if (out.empty())
        for (std::int64_t i = 0; i < layers; ++i)
            out.push_back(i >= 2 && i % 2 == 1 ? Compression::indexed : Compression::heavy);
    if (static_cast<std::int64_t>(out.size()) < layers)
        config.invalid(config.raw("layer_types") != nullptr ? "layer_types" : "compress_ratios",
                       "expected an entry for each layer (" + std::to_string(layers) + ")");
    out.resize(static_cast<std::size_t>(layers));
    return out;
}

}  // namespace

void configure_deepseek_v4(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_decoder_sizes(config, plan);
    DeepseekV4 d;
    d.hidden = plan.hidden;
    d.heads = config.size("num_attention_heads", kLargestCount);
    d.head_dim = config.size("head_dim");
    d.query_rank = config.size("q_lora_rank");
    d.groups = config.size("o_groups", kLargestCount);
    d.output_rank = config.size("o_lora_rank");
    config.divides("num_attention_heads", d.heads, "o_groups", d.groups);
    d.index_heads = config.size("index_n_heads", kLargestCount);
    d.index_dim = config.size("index_head_dim");
    d.streams = config.size("hc_mult", 64);
    ConfigReader rates = config.nested("compress_rates", "compression rates",
                                       "compressed_sparse_attention=4 heavily_compressed_attention=128");
    d.rate = rates.size("compressed_sparse_attention", kLargestCount);
    d.heavy_rate = rates.size("heavily_compressed_attention", kLargestCount);

    LayerPlan base;
    base.attention.heads = d.heads;
    base.attention.head_dim = d.head_dim;
    base.attention.rotary = -1;
    read_experts(config, base.mlp, "n_routed_experts", "moe_intermediate_size");
    base.mlp.experts.shared = "shared_experts";
    base.mlp.experts.shared_width = base.mlp.experts.width;
    base.mlp.experts.shared_bias = config.flag("mlp_bias");
    base.extra = [d](BlockBuilder& b) {
        connection_weights(b, "attn_hc", d);
        connection_weights(b, "ffn_hc", d);
    };
    plan_layers(plan, read_compressions(config, plan.layer_count), [&](Compression compression) {
        LayerPlan layer = base;
        layer.attention.weights = [d, compression](BlockBuilder& b) { v4_attention_weights(b, d, compression); };
        return layer;
    });
    parts.add("model.", "streams", [&](BlockBuilder& b) {
        b.parameter("hc_head.hc_fn", {d.streams, d.streams * d.hidden}, Component::other);
        b.parameter("hc_head.hc_base", {d.streams}, Component::other);
        b.parameter("hc_head.hc_scale", {1}, Component::other);
    });
    parts.add_decoder(plan);
}

}  // namespace membudget
