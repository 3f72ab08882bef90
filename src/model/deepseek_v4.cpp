// DeepSeek-V4: attention over one key-value head that some layers compress (with an indexer, or more of it and
// without), outputs projected in groups, and several residual streams that each sublayer mixes (hyper-connections,
// arXiv:2409.19606) [transformers models/deepseek_v4/modeling_deepseek_v4.py].

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder_layer.hpp"
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
    std::int64_t iterations = 20;                   ///< of the normalisation of a mix
    std::int64_t rotated = 1;                       ///< dimensions at the end of each head
    std::int64_t window = 0, chosen = 1;
    double dropout = 0;
};

/// Parameters of a compressor, in the order of `OpKind::compress`.
std::vector<int> compressor_weights(BlockBuilder& b, const std::string& module, std::int64_t hidden, std::int64_t rate,
                                    std::int64_t width, std::int64_t out) {
    std::vector<int> made{b.parameter(join(module, "position_bias"), {rate, width}, kAttention)};
    made.push_back(b.linear_weights(join(module, "kv_proj"), hidden, width, false, kAttention).front());
    made.push_back(b.linear_weights(join(module, "gate_proj"), hidden, width, false, kAttention).front());
    made.push_back(b.norm_weights(join(module, "kv_norm"), out, norms::rms).front());
    return made;
}

/// The attributes of ops that make keys of windows.
OpAttributes window_attributes(const DeepseekV4& d, Compression compression) {
    OpAttributes a;
    a.head_dim = d.head_dim;
    a.rotary_dim = d.rotated;
    a.rate = compression == Compression::heavy ? d.heavy_rate : d.rate;
    a.overlaps = compression == Compression::indexed;
    return a;
}

/// Keys of windows, and their bias: two tensors whose sizes the kernels decide.
std::pair<int, int> compressor(BlockBuilder& b, const DeepseekV4& d, Compression compression, int x, int latent) {
    const auto function = b.scope();
    const std::string module = "self_attn.compressor";
    const bool heavy = compression == Compression::heavy;
    const int entries = b.tensor(module, 0, Rows::one);
    const int bias = b.tensor(join(module, "block_bias"), 0, Rows::one);
    const std::int64_t width = heavy ? d.head_dim : 2 * d.head_dim;
    std::vector<int> weights = compressor_weights(b, module, d.hidden, heavy ? d.heavy_rate : d.rate, width, d.head_dim);
    std::vector<int> outputs{entries};
    if (heavy) outputs.push_back(bias);
    b.op(OpKind::compress, module, place::attention, {x}, outputs, std::move(weights)).attributes =
        window_attributes(d, compression);
    if (heavy) return {entries, bias};
    const std::string indexer = join(module, "indexer");
    weights = compressor_weights(b, indexer, d.hidden, d.rate, 2 * d.index_dim, d.index_dim);
    weights.push_back(b.linear_weights(join(indexer, "q_b_proj"), d.query_rank, d.index_heads * d.index_dim, false, kAttention).front());
    weights.push_back(b.linear_weights(join(indexer, "scorer.weights_proj"), d.hidden, d.index_heads, false, kAttention).front());
    Op& op = b.op(OpKind::sparse_mask, indexer, place::attention, {x, latent, entries}, {bias}, std::move(weights));
    op.attributes = window_attributes(d, compression);
    op.attributes.heads = d.index_heads;
    op.attributes.head_dim = d.index_dim;
    op.attributes.chosen = d.chosen;
    op.reader = Reader::dropped;
    return {entries, bias};
}

int rotated(BlockBuilder& b, const DeepseekV4& d, int x, const std::string& name, int cos, int sin) {
    const int out = b.tensor(name, b.width(x));
    OpAttributes& a = b.op(OpKind::rotary, name, place::attention, {x, cos, sin}, {out}).attributes;
    a.rotation = Rotation::trailing;
    a.head_dim = d.head_dim;
    a.rotary_dim = d.rotated;
    return out;
}

/// Tensors of the model that a layer gets.
struct LayerInputs {
    int cos = -1, sin = -1, mask = -1;
};

int v4_attention(BlockBuilder& b, const DeepseekV4& d, Compression compression, int x, const LayerInputs& given) {
    constexpr Place here = place::attention;
    const auto function = b.scope();
    const int sinks = b.parameter("self_attn.sinks", {d.heads}, kAttention);
    const std::int64_t width = d.heads * d.head_dim;
    int latent = b.linear(x, "self_attn.q_a_proj", d.query_rank, false, here);
    latent = b.hold(b.norm(latent, "self_attn.q_a_norm", norms::rms_wide_product));
    int q = b.linear(latent, "self_attn.q_b_proj", width, false, here);
    q = b.norm(q, "self_attn.q_b_norm", {OpKind::rms_norm, NormStyle::unweighted, false, false}, here);
    b.last_op().attributes.heads = d.heads;
    q = b.hold(rotated(b, d, q, "self_attn.query", given.cos, given.sin));
    int kv = b.linear(x, "self_attn.kv_proj", d.head_dim, false, here);
    kv = b.norm(kv, "self_attn.kv_norm", norms::rms_wide_product);
    kv = b.hold(rotated(b, d, kv, "self_attn.key", given.cos, given.sin));
    std::vector<int> inputs{q, kv, given.mask, given.cos, given.sin};
    if (compression != Compression::none) {
        const auto [entries, bias] = compressor(b, d, compression, x, latent);
        inputs.push_back(entries);
        inputs.push_back(bias);
    }
    const int grouped = b.tensor("self_attn.o_a_proj", d.groups * d.output_rank);
    const int weight = b.linear_weights("self_attn.o_a_proj", width / d.groups, d.groups * d.output_rank, false, kAttention).front();
    OpAttributes& a = b.op(OpKind::attention, "self_attn.attention", here, std::move(inputs), {grouped}, {sinks, weight}).attributes;
    a.form = AttentionForm::compressed;
    a.causal = false;  // its inputs are not those that a cache of keys and values would replace
    a.heads = d.heads;
    a.kv_heads = 1;
    a.head_dim = d.head_dim;
    a.rotary_dim = d.rotated;
    a.dropout = d.dropout;
    a.window = d.window;
    return b.linear(grouped, "self_attn.o_b_proj", d.hidden, false, here);
}

/// What mixes the streams around a sublayer.
struct Connection {
    int post = -1, comb = -1, collapsed = -1;
};

Connection connection(BlockBuilder& b, const DeepseekV4& d, const std::string& module, int streams) {
    const std::int64_t mixes = (2 + d.streams) * d.streams;
    Connection made{b.tensor(join(module, "post"), d.streams), b.tensor(join(module, "comb"), d.streams * d.streams),
                    b.tensor(join(module, "collapsed"), d.hidden)};
    OpAttributes& a = b.op(OpKind::collapse_streams, module, place::residual, {streams}, {made.post, made.comb, made.collapsed},
                           {b.parameter(join(module, "fn"), {mixes, d.streams * d.hidden}, Component::other),
                            b.parameter(join(module, "base"), {mixes}, Component::other),
                            b.parameter(join(module, "scale"), {3}, Component::other)}).attributes;
    a.streams = d.streams;
    a.iterations = d.iterations;
    return made;
}

int mixed(BlockBuilder& b, const Connection& c, int result, int streams, const std::string& name) {
    const int out = b.tensor(name, b.width(streams));
    b.op(OpKind::mix_streams, name, place::residual, {c.post, result, c.comb, streams}, {out});
    return out;
}

/// Parameters that the class keeps in fp32, whatever the rest is in (_keep_in_fp32_modules_strict).
void keep_wide(BlockBuilder& b, Compression compression) {
    const std::string compressor = "self_attn.compressor", indexer = join(compressor, "indexer");
    std::vector<std::string> names{"self_attn.sinks", "self_attn.q_a_norm.weight", "self_attn.kv_norm.weight",
                                   "input_layernorm.weight", "post_attention_layernorm.weight"};
    for (const std::string_view module : {"attn_hc", "ffn_hc"})
        for (const std::string_view name : {"fn", "base", "scale"}) names.push_back(join(module, name));
    if (compression != Compression::none)
        for (const std::string_view name : {"position_bias", "kv_norm.weight"}) names.push_back(join(compressor, name));
    if (compression == Compression::indexed)
        for (const std::string_view name : {"position_bias", "kv_norm.weight"}) names.push_back(join(indexer, name));
    for (const std::string& name : names) b.parameter_named(name).dtype = &dtype::fp32;
}

/// DeepseekV4DecoderLayer.forward.
int v4_layer(BlockBuilder& b, const DeepseekV4& d, Compression compression, const MlpPlan& mlp, int x, const LayerInputs& given) {
    const Connection first = connection(b, d, "attn_hc", x);
    int attended = -1;
    {
        const auto argument = b.scope();
        const int normed = b.hold(b.norm(first.collapsed, "input_layernorm", norms::rms_wide_product));
        attended = b.hold(v4_attention(b, d, compression, normed, given));
    }
    const int streams = b.hold(mixed(b, first, attended, x, "attention_residual"));
    const Connection second = connection(b, d, "ffn_hc", streams);
    // Their names are bound anew when the second connection has returned.
    for (const int name : {first.post, first.comb, first.collapsed}) b.last_op().inputs.push_back(name);
    for (const int name : {second.post, second.comb, second.collapsed}) b.hold(name);
    int result = -1;
    {
        const auto argument = b.scope();
        const int normed = b.hold(b.norm(second.collapsed, "post_attention_layernorm", norms::rms_wide_product));
        result = b.hold(mixture_of_experts(b, mlp, normed, d.hidden, false));
    }
    const int out = mixed(b, second, result, streams, "mlp_residual");
    keep_wide(b, compression);
    return out;
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

/// DeepseekV4HyperHead.forward, whose parameters the class keeps in fp32.
int collapse_streams(BlockBuilder& b, const DecoderPlan& plan, const std::string& base, int x) {
    const std::string module = join(base, "hc_head");
    const std::vector<int> weights{
        b.parameter(join(module, "hc_fn"), {plan.streams, detail::checked_mul(plan.streams, plan.hidden)}, Component::other),
        b.parameter(join(module, "hc_base"), {plan.streams}, Component::other),
        b.parameter(join(module, "hc_scale"), {1}, Component::other)};
    for (const std::string_view name : {"hc_fn", "hc_base", "hc_scale"}) b.parameter_named(join(module, name)).dtype = &dtype::fp32;
    const int out = b.tensor(module, plan.hidden);
    b.op(OpKind::collapse_streams, module, place::residual, {x}, {out}, weights).attributes.streams = plan.streams;
    return out;
}

Block build_whole_layer(const DecoderPlan& plan, const LayerPlan& layer, const SharedTensors& ids,
                        const std::vector<Tensor>& shared) {
    BlockBuilder b("decoder layer");
    const int x = b.input(detail::checked_mul(plan.hidden, plan.streams));
    const auto table = static_cast<std::size_t>(layer.attention.rotary);
    const int cos = b.shared(ids.cos[table], shared), sin = b.shared(ids.sin[table], shared);
    const int mask = b.shared(layer.attention.window > 0 ? ids.window_mask : ids.full_mask, shared);
    const int out = layer.build(b, x, cos, sin, mask);
    b.set_checkpointable();
    return std::move(b).finish(out);
}

namespace {

/// Whether each layer's experts are told by the tokens' ids: the words of `mlp_layer_types`, else the first ones.
std::vector<bool> read_hashed(ConfigReader& config, std::int64_t layers) {
    std::vector<bool> out;
    for (const std::string& word : layer_words(config, "mlp_layer_types", layers)) out.push_back(word == "hash_moe");
    const std::int64_t first = config.count_or("num_hash_layers", 3);
    for (auto i = static_cast<std::int64_t>(out.size()); i < layers; ++i) out.push_back(i < first);
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

    d.iterations = config.size("hc_sinkhorn_iters", kLargestCount);
    d.window = config.size("sliding_window");
    d.chosen = config.size("index_topk");
    d.dropout = config.probability("attention_dropout");
    const double fraction = config.number("partial_rotary_factor", 64.0 / 512);
    d.rotated = config.size_or("qk_rope_head_dim", std::max<std::int64_t>(2, static_cast<std::int64_t>(static_cast<double>(d.head_dim) * fraction)));

    LayerPlan base;
    base.attention.heads = d.heads;
    base.attention.head_dim = d.head_dim;
    base.attention.rotary_dim = d.rotated;
    base.attention.rotation = Rotation::trailing;
    base.attention.form = AttentionForm::compressed;
    base.attention.window = d.window;
    read_experts(config, base.mlp, "n_routed_experts", "moe_intermediate_size");
    base.mlp.experts.shared = "shared_experts";
    base.mlp.experts.shared_width = base.mlp.experts.width;
    base.mlp.experts.shared_bias = config.flag("mlp_bias");
    const std::vector<bool> hashed = read_hashed(config, plan.layer_count);
    const std::vector<Compression> compressions = read_compressions(config, plan.layer_count);
    std::vector<std::pair<Compression, bool>> keys;
    for (std::size_t i = 0; i < std::min(hashed.size(), compressions.size()); ++i) keys.emplace_back(compressions[i], hashed[i]);
    plan_layers(plan, keys, [&](const std::pair<Compression, bool>& key) {
        LayerPlan layer = base;
        layer.attention.rotary = key.first == Compression::none ? 0 : 1;
        layer.mlp.experts.form = key.second ? RouterForm::deepseek_v4_hashed : RouterForm::deepseek_v4;
        layer.build = [d, compression = key.first, mlp = layer.mlp](BlockBuilder& b, int x, int cos, int sin, int mask) {
            return v4_layer(b, d, compression, mlp, x, {cos, sin, mask});
        };
        return layer;
    });
    plan.streams = d.streams;
    plan.norm = norms::rms_wide_product;
    if (config.text("scoring_func") != "sqrtsoftplus")
        plan.step_unsupported = "scores of experts other than the square root of softplus are not modelled";
    parts.add_decoder(plan, true);
}

}  // namespace membudget
