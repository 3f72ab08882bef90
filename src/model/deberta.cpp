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
        b.share(x, kEmbeddings, shared);
    } else if (relative.normed) {
        b.norm_weights(norm, plan.hidden, norms::layer);
    }
}

Block relative_convolution(const EncoderPlan& plan, const std::vector<Tensor>& shared, int embeddings) {
    const RelativePositions& relative = plan.relative;
    const std::string conv = "encoder.conv.conv", norm = "encoder.conv.LayerNorm";
    BlockBuilder b("convolution");
    const int residual = b.input(plan.hidden);
    int x = b.shared(embeddings, shared);
    const auto copied = [&](std::string name) {
        const int out = b.tensor(name, plan.hidden);
        b.op(OpKind::transpose_heads, std::move(name), place::other, {x}, {out}).attributes.heads = 1;
        x = out;
    };
    const std::vector<int> weights{
        b.parameter(join(conv, "weight"), {plan.hidden, plan.hidden / relative.conv_groups, relative.conv_kernel},
                    Component::other),
        b.parameter(join(conv, "bias"), {plan.hidden}, Component::other)};
    copied("encoder.conv.channels_first");
    const int convolved = b.tensor(conv, plan.hidden);
    b.op(OpKind::convolution, conv, place::other, {x}, {convolved}, weights);
    x = convolved;
    copied("encoder.conv.channels_last");
    const int zeroed = b.tensor("encoder.conv.without_padding", plan.hidden);
    b.op(OpKind::zero_padding, "encoder.conv.without_padding", place::other, {x}, {zeroed});
    x = b.dropout(zeroed, "encoder.conv.dropout", plan.hidden_dropout, place::other);
    x = b.hold(b.activation(x, "encoder.conv.conv_act", relative.conv_act, place::other));
    x = b.hold(b.add(residual, x, "encoder.conv.residual"));
    x = b.hold(b.norm(x, norm, norms::layer));
    const int masked = b.tensor("encoder.conv.masked", plan.hidden);
    b.op(OpKind::multiply, "encoder.conv.masked", place::other, {x}, {masked});
    return std::move(b).finish(masked);
}

namespace {

/// The embeddings of relative positions as a layer reads them.
int sliced_positions(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared,
                     const std::string& path) {
    b.shared(kDistances, shared);  // an argument, whether or not it is needed
    int embeddings = b.shared(kEmbeddings, shared);
    embeddings = b.dropout(embeddings, join(path, "pos_dropout"), plan.hidden_dropout, place::attention);
    const int sliced = b.tensor(join(path, "rel_embeddings"), plan.hidden, Rows::one);
    b.set_times(sliced, plan.relative.rows);
    if (plan.relative.joined) {  // of the distances that a sequence has
        b.set_rows(sliced, Rows::positions);
        b.set_times(sliced, 2);
        b.set_most(sliced, plan.relative.rows);
    }
    OpAttributes& slice = b.op(OpKind::split, join(path, "rel_embeddings"), place::attention, {embeddings},
                               {sliced}).attributes;
    slice.same = slice.sliced = true;
    return sliced;
}

void set_attention(OpAttributes& a, const EncoderPlan& plan) {
    a.heads = a.kv_heads = plan.heads;
    a.head_dim = a.value_dim = plan.hidden / plan.heads;
    a.causal = false;
    a.by_key = plan.relative.by_key;
    a.by_query = plan.relative.by_query;
    a.softmax_in_dtype = true;
    a.dropout = plan.attention_dropout_p;
}

/// DeBERTa v1 [transformers models/deberta/modeling_deberta.py DisentangledSelfAttention].
int joined_attention(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared,
                     const std::string& path, int x) {
    const RelativePositions& relative = plan.relative;
    constexpr Component kind = Component::attention;
    const auto function = b.scope();
    const int hidden = b.hold(b.linear(x, join(path, "in_proj"), 3 * plan.hidden, false, place::attention));
    const std::vector<int> parts =
        b.split(hidden, join(path, "split"), {plan.hidden, plan.hidden, plan.hidden}, place::attention);
    b.last_op().attributes.unbound = true;
    const auto biased = [&](int part, std::string_view bias) {
        const int sum = b.tensor(join(path, bias), plan.hidden);
        b.op(OpKind::add, join(path, bias), place::attention, {part}, {sum},
             {b.parameter(join(path, bias), {plan.hidden}, kind)});
        return sum;
    };
    int q = biased(parts[0], "q_bias");
    const int v = b.hold(biased(parts[2], "v_bias"));
    q = b.hold(b.scale(q, join(path, "query"), place::attention));
    std::vector<int> inputs{q, b.hold(parts[1]), v, b.shared(kMask, shared)};
    if (relative.by_key || relative.by_query) {
        const int embeddings = sliced_positions(b, plan, shared, path);
        const auto project = [&](std::string_view name, bool bias) {
            inputs.push_back(b.hold(b.linear(embeddings, join(path, name), plan.hidden, bias, place::attention)));
        };
        if (relative.by_key) project("pos_proj", false);
        if (relative.by_query) project("pos_q_proj", true);
    }
    const int context = b.tensor(path, plan.hidden);
    OpAttributes& a = b.op(OpKind::attention, path, place::attention, std::move(inputs), {context}).attributes;
    set_attention(a, plan);
    a.form = AttentionForm::disentangled_joined;
    a.unbound = true;
    return context;
}

}  // namespace

int disentangled_attention(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared, int x) {
    const RelativePositions& relative = plan.relative;
    const std::string path = "attention.self";
    if (relative.joined) return joined_attention(b, plan, shared, path, x);
    const auto function = b.scope();
    const auto project = [&](int from, std::string_view name, Rows rows, Reader reader = Reader::loss) {
        const int projected = b.linear(from, join(path, name), plan.hidden, true, place::attention);
        b.last_op().reader = reader;
        const std::string laid_out = join(path, name) + ".heads";
        const int out = b.tensor(laid_out, plan.hidden, rows);
        b.set_times(out, b.times(from));
        Op& heads = b.op(OpKind::transpose_heads, laid_out, place::attention, {projected}, {out});
        heads.attributes.heads = plan.heads;
        heads.reader = reader;
        return b.hold(out);
    };
    const int q = project(x, "query_proj", Rows::tokens);
    const int k = project(x, "key_proj", Rows::tokens);
    const int v = project(x, "value_proj", Rows::tokens);
    std::vector<int> inputs{v, q, k, b.shared(kMask, shared)};
    if (relative.by_key || relative.by_query) {
        const int embeddings = sliced_positions(b, plan, shared, path);
        // Shared keys: the queries' projection first, for both kinds, whether or not it is needed.
        if (relative.shared_keys) {
            const auto reader = [](bool needed) { return needed ? Reader::loss : Reader::nobody; };
            const int queries = project(embeddings, "query_proj", kRepeated, reader(relative.by_query));
            const int keys = project(embeddings, "key_proj", kRepeated, reader(relative.by_key));
            if (relative.by_key) inputs.push_back(keys);
            if (relative.by_query) inputs.push_back(queries);
        } else {
            if (relative.by_key) inputs.push_back(project(embeddings, "pos_key_proj", kRepeated));
            if (relative.by_query) inputs.push_back(project(embeddings, "pos_query_proj", kRepeated));
        }
    }
    const int context = b.tensor(path, plan.hidden);
    OpAttributes& a = b.op(OpKind::attention, path, place::attention, std::move(inputs), {context}).attributes;
    set_attention(a, plan);
    a.form = AttentionForm::disentangled;
    a.transposed = a.head_major = true;
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
    config.note("autocast to 16 bits: the class fills masked scores with the least number of fp32, which PyTorch "
                "refuses in a narrower type");
    plan.norm = norms::layer_divided;
    for (const std::string_view key : {"talking_head", "legacy"})
        if (const bool usual = key == "legacy"; config.flag(key) != usual)
            config.unsupported(key, usual ? "expected true; got false" : "expected false; got true");
}

void configure_deberta_v2(ConfigReader& config, EncoderPlan& plan) {
    read_deberta(config, plan);
    plan.relative.conv_kernel = config.count_or("conv_kernel_size", 0);
    plan.relative.conv_groups = config.size("conv_groups", kLargestCount);
    if (plan.relative.conv_kernel > 0) plan.relative.conv_act = config.activation("conv_act");
    plan.relative.normed = config.text("norm_rel_ebd").find("layer_norm") != std::string::npos;
    plan.relative.shared_keys = config.flag("share_att_key");
}

}  // namespace membudget
