// MiniMax-M3: attention to blocks of keys that an indexer chooses, and mixtures of experts whose gates are clamped
// [transformers models/minimax_m3_vl/modeling_minimax_m3_vl.py].

#include <algorithm>
#include <utility>
#include <vector>

#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

struct BlockIndexer {
    std::int64_t hidden = 1, heads = 1, width = 1;  ///< heads and their width are the indexer's own
    std::int64_t query_heads = 1;                   ///< of the attention that gets the mask
    std::int64_t rotated = 1;                       ///< dimensions of an indexer's head
    std::int64_t block = 1, chosen = 1, local = 0;
};

/// MiniMaxM3VLIndexer. Its mask lets no gradient pass.
int block_mask(BlockBuilder& b, const BlockIndexer& d, int x, int query, int cos, int sin, int mask) {
    constexpr Component kind = Component::attention;
    const auto module = [](std::string_view name) { return join("self_attn.indexer", name); };
    std::vector<int> parameters{b.linear_weights(module("q_proj"), d.hidden, d.heads * d.width, false, kind).front(),
                                b.linear_weights(module("k_proj"), d.hidden, d.width, false, kind).front()};
    for (const std::string_view norm : {"q_norm", "k_norm"})
        parameters.push_back(b.norm_weights(module(norm), d.width, norms::rms_one_plus).front());
    const int own = b.tensor("self_attn.mask", 0);
    Op& op = b.op(OpKind::sparse_mask, "self_attn.indexer", place::attention, {x, cos, sin, mask, query}, {own},
                  std::move(parameters));
    op.reader = Reader::dropped;
    op.attributes.heads = d.heads;
    op.attributes.kv_heads = d.query_heads;
    op.attributes.head_dim = d.width;
    op.attributes.rotary_dim = d.rotated;
    op.attributes.chosen = d.chosen;
    op.attributes.key_block = d.block;
    op.attributes.local_blocks = d.local;
    return own;
}

/// Published files describe the indexers in an object of their own.
BlockIndexer read_indexer(ConfigReader& config, ConfigReader& own, const DecoderPlan& plan, const AttentionPlan& attention) {
    const auto size = [&](std::string_view published, std::string_view key) {
        return own.size_or(published, config.size(key, kLargestCount), kLargestCount);
    };
    BlockIndexer d;
    d.hidden = plan.hidden;
    d.heads = size("sparse_num_index_heads", "index_n_heads");
    d.width = own.size_or("sparse_index_dim", config.size("index_head_dim"));
    d.query_heads = attention.heads;
    d.rotated = std::min(d.width, attention.rotary_dim);
    d.block = size("sparse_block_size", "index_block_size");
    d.chosen = size("sparse_topk_blocks", "index_topk_blocks");
    d.local = own.count_or("sparse_local_block", config.count_or("index_local_blocks", 1));
    return d;
}

/// Which layers have an indexer.
std::vector<bool> indexed_layers(ConfigReader& config, ConfigReader& own, std::int64_t layers) {
    std::vector<bool> indexed = layers_of_type(config, layers, "minimax_m3_sparse", "full_attention");
    if (indexed.empty())
        for (const std::int64_t mark : own.sizes("sparse_attention_freq")) indexed.push_back(mark != 0);
    const auto count = static_cast<std::size_t>(layers);
    if (indexed.empty()) indexed.assign(count, false);
    if (indexed.size() != count) own.invalid("sparse_attention_freq", "expected an entry for each layer");
    const std::vector<std::int64_t> without_value = own.sizes("sparse_disable_index_value");
    for (std::size_t i = 0; i < std::min(indexed.size(), without_value.size()); ++i)
        if (indexed[i] && without_value[i] == 0) {
            own.unsupported("sparse_disable_index_value", "expected indexers without values in all sparse layers");
            break;
        }
    return indexed;
}

}  // namespace

void configure_minimax_m3(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::rms_one_plus;
    LayerPlan base;
    read_heads(config, plan.hidden, base.attention);
    base.attention.qk_norm = QkNorm::per_head;
    base.attention.qk_norm_kind = norms::rms_one_plus;
    base.attention.rotation = Rotation::halves_joined;
    base.attention.rotary_dim = read_rotary_dim(config, base.attention.head_dim, 1);
    base.attention.dropout = config.probability("attention_dropout");
    base.mlp.gate_up = "gate_up_proj";
    base.mlp.act = Act::swigluoai;
    base.mlp.width = config.size("dense_intermediate_size");
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "num_local_experts", "intermediate_size");
    experts.experts.form = RouterForm::minimax;
    experts.experts.sharing = SharedExpert::first;
    experts.experts.scaled = true;
    experts.experts.shared = "shared_experts";
    experts.experts.shared_gate_up = "gate_up_proj";
    experts.experts.shared_width = config.size("shared_intermediate_size");
    if (config.flag("attention_output_gate"))
        config.unsupported("attention_output_gate", "expected false: the class has no such gate");
    if (!config.flag("use_qk_norm"))
        config.unsupported("use_qk_norm", "expected true: the class always normalises queries and keys");

    ConfigReader own = config.nested(
        "sparse_attention_config", "sparse attention",
        "sparse_num_index_heads sparse_index_dim sparse_attention_freq sparse_disable_index_value sparse_block_size "
        "sparse_topk_blocks sparse_local_block");
    const BlockIndexer indexer = read_indexer(config, own, plan, base.attention);
    const std::vector<bool> indexed = indexed_layers(config, own, plan.layer_count);
    std::vector<bool> sparse = listed_sparse_layers(config, plan.layer_count);
    if (sparse.empty()) sparse.assign(static_cast<std::size_t>(plan.layer_count), true);
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(indexed.size(), sparse.size()); ++i) layers.emplace_back(indexed[i], sparse[i]);
    plan_layers(plan, layers, [&](const auto& key) {
        LayerPlan layer = base;
        if (key.second) layer.mlp = experts;
        if (key.first)
            layer.attention.mask = [indexer](BlockBuilder& b, int x, int query, int cos, int sin, int mask) {
                return block_mask(b, indexer, x, query, cos, sin, mask);
            };
        return layer;
    });
}

}  // namespace membudget
