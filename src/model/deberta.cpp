// DeBERTa-v2 (arXiv:2006.03654): BERT's shape, but contents also meet embeddings of relative positions.

#include "model/deberta.hpp"

namespace membudget {

namespace {

constexpr int kMask = 0, kEmbeddings = 1, kDistances = 2;  // in `Model::shared`
/// Positions are repeated for each sequence.
constexpr Rows kRepeated = Rows::batch;

}  // namespace

std::vector<Tensor> relative_tensors(const EncoderPlan& plan) {
    std::vector<Tensor> out;
    for (const std::string_view name : {"relative position embeddings", "relative positions"}) {
        Tensor made;
        made.name = name;
        made.rows = Rows::one;
        out.push_back(std::move(made));
    }
    out.front().times = plan.relative.rows;
    out.front().width = plan.hidden;
    return out;
}

void relative_stem(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared) {
    const RelativePositions& relative = plan.relative;
    const std::string table = "encoder.rel_embeddings", norm = "encoder.LayerNorm";
    if (relative.rows > 0) {
        const int weight = b.parameter(join(table, "weight"), {relative.rows, plan.hidden}, Component::attention);
        int x = b.tensor(table, plan.hidden, Rows::one);
        b.set_times(x, relative.rows);
        b.op(OpKind::split, table, place::attention, {}, {x}, {weight}).attributes.same = true;
        if (relative.normed) x = b.norm(x, norm, norms::layer, place::attention);
        b.share(x, kEmbeddings, shared[kEmbeddings]);
    } else if (relative.normed) {
        b.norm_weights(norm, plan.hidden, norms::layer);
    }
    if (relative.conv_kernel == 0) return;
    b.parameter("encoder.conv.conv.weight",
                {plan.hidden, plan.hidden / relative.conv_groups, relative.conv_kernel}, Component::other);
    b.parameter("encoder.conv.conv.bias", {plan.hidden}, Component::other);
    b.norm_weights("encoder.conv.LayerNorm", plan.hidden, norms::layer);
}

namespace {

/// DeBERTa v1 [transformers models/deberta/modeling_deberta.py DisentangledSelfAttention].
int joined_attention(BlockBuilder& b, const EncoderPlan& plan, const std::string& path, int x) {
    constexpr Component kind = Component::attention;
    const int hidden = b.linear(x, join(path, "in_proj"), 3 * plan.hidden, false, place::attention);
    const std::vector<int> parts =
        b.split(hidden, join(path, "split"), {plan.hidden, plan.hidden, plan.hidden}, place::attention);
    for (const std::string_view bias : {"q_bias", "v_bias"}) b.parameter(join(path, bias), {plan.hidden}, kind);
    if (plan.relative.by_key) b.linear_weights(join(path, "pos_proj"), plan.hidden, plan.hidden, false, kind);
    if (plan.relative.by_query) b.linear_weights(join(path, "pos_q_proj"), plan.hidden, plan.hidden, true, kind);
    const int context = b.tensor(path, plan.hidden);
    OpAttributes& a = b.op(OpKind::attention, path, place::attention, parts, {context}).attributes;
    a.heads = a.kv_heads = plan.heads;
    a.head_dim = a.value_dim = plan.hidden / plan.heads;
    a.causal = false;
    return context;
}

}  // namespace

int disentangled_attention(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared, int x) {
    const RelativePositions& relative = plan.relative;
    const std::string path = "attention.self";
    if (relative.joined) return joined_attention(b, plan, path, x);
    const auto function = b.scope();
    const auto heads = [&](int from, std::string_view name, Rows rows) {
        const std::string laid_out = join(path, name) + ".heads";
        const int out = b.tensor(laid_out, b.width(from), rows);
        b.set_times(out, b.times(from));
        b.op(OpKind::transpose_heads, laid_out, place::attention, {from}, {out}).attributes.heads = plan.heads;
        return b.hold(out);
    };
    const auto project = [&](int from, std::string_view name, Rows rows) {
        return heads(b.linear(from, join(path, name), plan.hidden, true, place::attention), name, rows);
    };
    const int q = project(x, "query_proj", Rows::tokens);
    const int k = project(x, "key_proj", Rows::tokens);
    const int v = project(x, "value_proj", Rows::tokens);
    std::vector<int> inputs{v, q, k, b.shared(kMask, shared[kMask])};
    if (relative.by_key || relative.by_query) {
        b.shared(kDistances, shared[kDistances]);  // an argument, whether or not it is needed
        int embeddings = b.shared(kEmbeddings, shared[kEmbeddings]);
        embeddings = b.dropout(embeddings, join(path, "pos_dropout"), plan.hidden_dropout, place::attention);
        const int sliced = b.tensor(join(path, "rel_embeddings"), plan.hidden, Rows::one);
        b.set_times(sliced, relative.rows);
        OpAttributes& slice = b.op(OpKind::split, join(path, "rel_embeddings"), place::attention, {embeddings},
                                   {sliced}).attributes;
        slice.same = slice.sliced = true;
        embeddings = sliced;
        // Shared keys: the queries' projection first, for both kinds.
        if (relative.shared_keys) {
            const int queries = project(embeddings, "query_proj", kRepeated);
            const int keys = project(embeddings, "key_proj", kRepeated);
            if (relative.by_key) inputs.push_back(keys);
            if (relative.by_query) inputs.push_back(queries);
        } else {
            if (relative.by_key) inputs.push_back(project(embeddings, "pos_key_proj", kRepeated));
            if (relative.by_query) inputs.push_back(project(embeddings, "pos_query_proj", kRepeated));
        }
    }
    const int context = b.tensor(path, plan.hidden);
    OpAttributes& a = b.op(OpKind::attention, path, place::attention, std::move(inputs), {context}).attributes;
    a.heads = a.kv_heads = plan.heads;
    a.head_dim = a.value_dim = plan.hidden / plan.heads;
    a.causal = false;
    a.form = AttentionForm::disentangled;
    a.transposed = a.head_major = true;
    a.by_key = relative.by_key;
    a.by_query = relative.by_query;
    a.softmax_in_dtype = true;
    a.dropout = plan.attention_dropout_p;
    return context;
}

namespace {

/// The kinds of position terms: a list, or text such as "p2c|c2p".
std::string position_terms(ConfigReader& config) {
    const KeyTree* given = config.raw("pos_att_type");
    if (given == nullptr) return {};
    if (!given->is(KeyTree::Kind::array)) return config.text("pos_att_type");
    std::string terms;
    for (const std::string& term : config.texts("pos_att_type")) terms += term + "|";
    return terms;
}

void read_deberta(ConfigReader& config, EncoderPlan& plan) {
    plan.base = "deberta";
    plan.hidden = config.size("hidden_size");
    plan.width = config.size("intermediate_size");
    plan.embedding_width = config.size_or("embedding_size", plan.hidden);
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.position_rows = config.size("max_position_embeddings");
    plan.type_rows = config.count_or("type_vocab_size", 0);
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", plan.hidden, "num_attention_heads", plan.heads);
    plan.act = config.activation("hidden_act");
    plan.mlm_activation = plan.act;
    plan.hidden_dropout = config.probability("hidden_dropout_prob");
    plan.attention_dropout_p = config.probability("attention_probs_dropout_prob");
    plan.tied = config.flag("tie_word_embeddings");
    plan.absolute_positions = config.flag("position_biased_input");
    plan.masks_embeddings = true;
    plan.projects_first = true;
    plan.projection = "embeddings.embed_proj";
    plan.pooler_in_head = true;
    if (!config.flag("relative_attention")) return;
    // Buckets of distances in both directions; without buckets, all distances.
    std::int64_t reach = plan.position_rows;
    for (const std::string_view key : {"max_relative_positions", "position_buckets"})
        if (const KeyTree* given = config.knows(key) ? config.raw(key) : nullptr;
            given != nullptr && given->is(KeyTree::Kind::integer) && given->integer() > 0)
            reach = given->integer();
    if (reach > kLargestWidth) {
        config.invalid("max_relative_positions", "expected at most 16777216");
        reach = 1;
    }
    const std::string terms = position_terms(config);
    plan.relative.rows = 2 * reach;
    plan.relative.by_key = terms.find("c2p") != std::string::npos;
    plan.relative.by_query = terms.find("p2c") != std::string::npos;
}

}  // namespace

void configure_deberta(ConfigReader& config, EncoderPlan& plan) {
    read_deberta(config, plan);
    plan.relative.joined = true;
    for (const std::string_view key : {"talking_head", "legacy"})
        if (const bool usual = key == "legacy"; config.flag(key) != usual)
            config.unsupported(key, usual ? "expected true; got false" : "expected false; got true");
    plan.step_unsupported = kCountedOnly;
}

void configure_deberta_v2(ConfigReader& config, EncoderPlan& plan) {
    read_deberta(config, plan);
    plan.relative.conv_kernel = config.count_or("conv_kernel_size", 0);
    plan.relative.conv_groups = config.size("conv_groups", kLargestCount);
    if (plan.relative.conv_kernel > 0)
        plan.step_unsupported = "the convolution behind the first layer is not modelled yet";
    plan.relative.normed = config.text("norm_rel_ebd").find("layer_norm") != std::string::npos;
    plan.relative.shared_keys = config.flag("share_att_key");
}

}  // namespace membudget
