#include "model/modernbert.hpp"

#include <array>
#include <string>
#include <vector>

#include "model/blocks.hpp"
#include "model/config.hpp"
#include "model/decoder.hpp"

namespace membudget {
namespace {

constexpr std::size_t kFull = 0;   // of the two kinds of layers: their tables of the rotation
constexpr std::size_t kLocal = 1;  // and their masks

struct Plan {
    std::int64_t hidden = 1, width = 1, heads = 1, vocabulary = 1;
    Norm norm = norms::layer_no_bias;
    bool attention_bias = false, mlp_bias = false, decoder_bias = true, classifier_bias = false;
    bool tied = true;
    std::int64_t window = 0;        ///< tokens on either side that a local layer sees
    Act act = Act::gelu, head_act = Act::gelu;
    double embedding_dropout = 0, attention_dropout = 0, mlp_dropout = 0, classifier_dropout = 0;
    bool mean_pooling = false, sparse = false;
    std::vector<bool> local;        ///< by layer

    [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
};

/// Indices into `Model::shared`, by kind of layer.
struct Shared {
    std::array<int, 2> mask{}, cos{}, sin{};
};

Shared declare_shared(const Plan& plan, std::vector<Tensor>& shared) {
    const auto declare = [&](std::string name, std::int64_t width, Rows rows) {
        return declare_tensor(shared, std::move(name), width, rows);
    };
    Shared out;
    for (const std::size_t kind : {kFull, kLocal}) {
        const std::string name = kind == kFull ? "full_attention" : "sliding_attention";
        out.mask[kind] = declare(name + "_mask", 0, Rows::one);
        out.cos[kind] = declare("rotary_emb." + name + ".cos", plan.head_dim(), Rows::positions);
        out.sin[kind] = declare("rotary_emb." + name + ".sin", plan.head_dim(), Rows::positions);
    }
    return out;
}

OpAttributes attention_attributes(const Plan& plan, std::size_t kind) {
    OpAttributes out;
    out.heads = plan.heads;
    out.kv_heads = plan.heads;
    out.head_dim = plan.head_dim();
    out.value_dim = plan.head_dim();
    out.rotation = Rotation::halves_wide;
    out.causal = false;
    out.unbound = true;
    out.window = kind == kLocal ? plan.window : 0;
    out.dropout = plan.attention_dropout;
    return out;
}

/// Builds the blocks of a plan.
class Builder {
public:
    Builder(const Plan& plan, const Shared& ids, const std::vector<Tensor>& shared)
        : plan_(plan), ids_(ids), shared_(shared) {}

    [[nodiscard]] Block stem() const;
    /// `first`: the norm of the embeddings serves the first attention.
    [[nodiscard]] Block layer(bool first, bool local) const;
    [[nodiscard]] Block head(std::string_view architecture, std::int64_t labels, Problem problem) const;

private:
    int shared(BlockBuilder& b, int index) const {
        return b.shared(index, shared_);
    }
    int attention(BlockBuilder& b, int x, std::size_t kind) const;
    int mlp(BlockBuilder& b, int x) const;
    int prediction_head(BlockBuilder& b, int x) const;

    const Plan& plan_;
    const Shared& ids_;
    const std::vector<Tensor>& shared_;
};

Block Builder::stem() const {
    BlockBuilder b("embeddings");
    int x = b.embedding("embeddings.tok_embeddings", plan_.vocabulary, plan_.hidden);
    x = b.norm(x, "embeddings.norm", plan_.norm, place::embedding);
    x = b.dropout(x, "embeddings.drop", plan_.embedding_dropout, place::embedding);
    for (const std::size_t kind : {kFull, kLocal})
        b.op(OpKind::attention_mask, shared_[static_cast<std::size_t>(ids_.mask[kind])].name, place::attention, {},
             {shared(b, ids_.mask[kind])})
            .attributes = attention_attributes(plan_, kind);
    for (const std::size_t kind : {kFull, kLocal})
        b.op(OpKind::rotary_tables, kind == kFull ? "rotary_emb.full_attention" : "rotary_emb.sliding_attention",
             place::attention, {}, {shared(b, ids_.cos[kind]), shared(b, ids_.sin[kind])})
            .attributes = attention_attributes(plan_, kind);
    return std::move(b).finish(x);
}

int Builder::attention(BlockBuilder& b, int x, std::size_t kind) const {
    const auto function = b.scope();
    const std::int64_t h = plan_.hidden;
    const int fused = b.hold(b.linear(x, "attn.Wqkv", 3 * h, plan_.attention_bias, place::attention));
    const std::vector<int> parts = b.split(fused, "attn.qkv", {h, h, h}, place::attention);
    const int q = b.hold(b.tensor("attn.query", h));
    const int k = b.hold(b.tensor("attn.key", h));
    b.op(OpKind::rotary, "attn.rotary", place::attention,
         {parts[0], parts[1], shared(b, ids_.cos[kind]), shared(b, ids_.sin[kind])}, {q, k})
        .attributes = attention_attributes(plan_, kind);
    const int v = b.hold(parts[2]);
    const int context = b.tensor("attn.attention", h);
    OpAttributes& attributes =
        b.op(OpKind::attention, "attn.attention", place::attention, {q, k, v, shared(b, ids_.mask[kind])}, {context})
            .attributes;
    attributes = attention_attributes(plan_, kind);
    attributes.rotates = true;
    const int out = b.linear(context, "attn.Wo", h, plan_.attention_bias, place::attention);
    return b.dropout(out, "attn.out_drop", plan_.attention_dropout, place::attention);
}

int Builder::mlp(BlockBuilder& b, int x) const {
    const auto function = b.scope();
    const int both = b.hold(b.linear(x, "mlp.Wi", 2 * plan_.width, plan_.mlp_bias, place::mlp));
    const std::vector<int> parts = b.split(both, "mlp.chunk", {plan_.width, plan_.width}, place::mlp);
    int y = b.gated_activation(b.hold(parts[0]), b.hold(parts[1]), "mlp.act", plan_.act, place::mlp);
    y = b.dropout(y, "mlp.drop", plan_.mlp_dropout, place::mlp);
    return b.linear(y, "mlp.Wo", plan_.hidden, plan_.mlp_bias, place::mlp);
}

Block Builder::layer(bool first, bool local) const {
    BlockBuilder b(local ? "local encoder layer" : "encoder layer");
    const std::size_t kind = local ? kLocal : kFull;
    const int x = b.input(plan_.hidden);
    int attended = -1;
    if (first) {
        attended = attention(b, x, kind);
    } else {
        const auto argument = b.scope();
        const int normed = b.hold(b.norm(x, "attn_norm", plan_.norm));
        attended = attention(b, normed, kind);
    }
    b.hold(attended);
    const int residual = b.hold(b.add(x, attended, "attn.residual"));
    int y = -1;
    {
        const auto argument = b.scope();
        y = mlp(b, b.hold(b.norm(residual, "mlp_norm", plan_.norm)));
    }
    y = b.add(residual, y, "mlp.residual");
    b.set_checkpointable();
    return std::move(b).finish(y);
}

int Builder::prediction_head(BlockBuilder& b, int x) const {
    int y = b.linear(x, "head.dense", plan_.hidden, plan_.classifier_bias, place::head);
    y = b.activation(y, "head.act", plan_.head_act, place::head);
    return b.norm(y, "head.norm", plan_.norm, place::head);
}

Block Builder::head(std::string_view architecture, std::int64_t labels, Problem problem) const {
    BlockBuilder b("head");
    const bool bare = architecture.ends_with("Model");
    int x = b.input(plan_.hidden);
    b.release(x);  // the loop variable of the base model, which the final norm's result rebinds
    x = b.hold(b.norm(x, bare ? "final_norm" : "model.final_norm", plan_.norm));
    b.end_base_model();
    const auto loss = [&](OpKind kind, int of) -> OpAttributes& {
        return b.op(kind, "loss", place::loss, {of}, {b.tensor("loss", 1, Rows::one)}).attributes;
    };
    if (bare) {
        loss(OpKind::pooler_loss, x);
        return std::move(b).finish(-1);
    }
    const auto scores = [&](int of) {
        of = b.hold(prediction_head(b, of));
        of = b.hold(b.dropout(of, "drop", plan_.classifier_dropout, place::head));
        return b.hold(b.linear(of, "classifier", labels, true, place::head));
    };
    if (architecture.ends_with("ForTokenClassification")) {
        classification_loss(b, scores(x), Problem::single_label);
        return std::move(b).finish(-1);
    }
    if (architecture.ends_with("ForQuestionAnswering")) {
        loss(OpKind::span_loss, scores(x));
        return std::move(b).finish(-1);
    }
    if (architecture.ends_with("ForSequenceClassification")) {
        const int first = b.hold(b.tensor(plan_.mean_pooling ? "mean" : "first_token", plan_.hidden, Rows::batch));
        if (plan_.mean_pooling)
            b.op(OpKind::mean_patches, "mean", place::head, {x}, {first}).attributes.masked = true;
        else
            b.op(OpKind::split, "first_token", place::head, {x}, {first});
        int pooled = b.hold(prediction_head(b, first));
        pooled = b.hold(b.dropout(pooled, "drop", plan_.classifier_dropout, place::head));
        classification_loss(b, b.hold(b.linear(pooled, "classifier", labels, true, place::head)), problem);
        return std::move(b).finish(-1);
    }
    const int words = b.hold(
        b.linear(prediction_head(b, x), "decoder", plan_.vocabulary, plan_.decoder_bias, place::head));
    if (plan_.tied) b.parameter_named("decoder.weight").tied_to = "model.embeddings.tok_embeddings.weight";
    loss(OpKind::masked_lm_loss, words).widened = true;
    return std::move(b).finish(-1);
}

/// Which layers are local: `layer_types`, else all but every n-th.
std::vector<bool> local_layers(ConfigReader& config, std::int64_t layers) {
    std::vector<bool> out;
    const std::vector<std::string> types = config.texts("layer_types");
    if (!types.empty() && types.size() != static_cast<std::size_t>(layers)) {
        config.invalid("layer_types", "expected one entry for each layer");
        return std::vector<bool>(static_cast<std::size_t>(layers));
    }
    const std::int64_t every = config.size("global_attn_every_n_layers", kLargestCount);
    for (std::int64_t i = 0; i < layers; ++i)
        out.push_back(types.empty() ? i % every != 0 : types[static_cast<std::size_t>(i)] == "sliding_attention");
    return out;
}

Plan read(ConfigReader& config) {
    Plan plan;
    plan.hidden = config.size("hidden_size");
    plan.width = config.size("intermediate_size");
    plan.heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", plan.hidden, "num_attention_heads", plan.heads);
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.norm = config.flag("norm_bias") ? norms::layer : norms::layer_no_bias;
    plan.attention_bias = config.flag("attention_bias");
    plan.mlp_bias = config.flag("mlp_bias");
    plan.decoder_bias = config.flag("decoder_bias");
    plan.classifier_bias = config.flag("classifier_bias");
    plan.tied = config.flag("tie_word_embeddings");
    plan.window = config.size("local_attention") / 2;
    plan.act = config.activation("hidden_activation");
    plan.head_act = config.activation("classifier_activation");
    plan.embedding_dropout = config.probability("embedding_dropout");
    plan.attention_dropout = config.probability("attention_dropout");
    plan.mlp_dropout = config.probability("mlp_dropout");
    plan.classifier_dropout = config.probability("classifier_dropout");
    plan.mean_pooling = config.text("classifier_pooling") == "mean";
    plan.sparse = config.flag("sparse_prediction");
    plan.local = local_layers(config, config.size("num_hidden_layers", kLargestCount));
    return plan;
}

}  // namespace

Result<Model> build_modernbert(const Family& family, const KeyTree& config, std::string_view architecture) {
    Diagnostics diagnostics;
    const std::string chosen = choose_architecture(family, config, architecture, diagnostics);
    ConfigReader reader(config, "", family.name, family.keys, diagnostics);
    const Plan plan = read(reader);
    const std::int64_t labels = label_count(config);
    const Problem problem = problem_of(config, labels, diagnostics);
    if (!diagnostics.empty()) return diagnostics;

    const bool bare = chosen.ends_with("Model");
    const bool classifies = chosen.ends_with("ForSequenceClassification");
    const std::string base = bare ? "" : "model.";
    Model model;
    const Shared ids = declare_shared(plan, model.shared);
    const Builder builder(plan, ids, model.shared);
    model.blocks.push_back(builder.stem());
    model.sections.push_back({base, 0, {0}, 1});
    // Kinds of layers in the order of their first use.
    std::vector<int> kinds;
    std::array<int, 2> block_of{-1, -1};
    for (std::size_t i = 0; i < plan.local.size(); ++i) {
        const std::size_t kind = plan.local[i] ? kLocal : kFull;
        int& known = block_of[kind];
        int index = known;
        if (i == 0 || known < 0) {
            index = static_cast<int>(model.blocks.size());
            model.blocks.push_back(builder.layer(i == 0, plan.local[i]));
            if (i > 0) known = index;
        }
        kinds.push_back(index);
    }
    for (Section& section : sections_of(kinds, base + "layers.{}.")) model.sections.push_back(std::move(section));
    add_section(model, "", builder.head(chosen, labels, problem), 1);

    model.inputs = {{"ids"}};
    if (classifies)
        model.inputs.push_back(class_labels(Rows::batch, labels, problem));
    else if (chosen.ends_with("ForQuestionAnswering"))
        for (const std::string_view name : {"start positions", "end positions"}) model.inputs.push_back({name, Rows::batch});
    else if (!bare)
        model.inputs.push_back({"labels"});
    if (chosen.ends_with("ForQuestionAnswering") && labels != 2)
        model.step_unsupported = "the class takes its logits apart in two: num_labels must be 2";
    if (chosen.ends_with("ForMaskedLM") && plan.sparse)
        model.step_unsupported = "how many tokens a sparse prediction keeps depends on the data";
    note_origin(model, family, chosen, reader);
    model.facts.hidden_size = plan.hidden;
    model.facts.layers = static_cast<std::int64_t>(plan.local.size());
    model.facts.heads = plan.heads;
    model.facts.kv_heads = plan.heads;
    model.facts.head_dim = plan.head_dim();
    model.facts.intermediate_size = plan.width;
    model.facts.vocab_size = plan.vocabulary;
    return model;
}

}  // namespace membudget
