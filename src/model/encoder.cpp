#include "model/encoder.hpp"

#include <algorithm>

#include "model/deberta.hpp"
#include "model/decoder.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMostSharedLayers = 1024;
constexpr int kExtra = 1;  ///< in `Model::shared`, behind the mask: a position bias, or sinusoids

/// What a class computes from the last hidden states.
enum class Head { base, masked_lm, pretraining, next_sentence, classification, token_classes, spans };

int embeddings(BlockBuilder& b, const EncoderPlan& plan, std::int64_t width) {
    const auto function = b.scope();
    int x = b.hold(b.embedding(plan.word, plan.vocabulary, width));
    const auto add_types = [&] {
        if (plan.type_rows <= 0) return;
        const int types = b.hold(b.embedding(plan.types, plan.type_rows, width));
        x = b.add(x, types, "embeddings.types_sum", place::embedding);
    };
    if (!plan.masks_embeddings) add_types();
    if (plan.absolute_positions) {
        const int positions = b.hold(
            b.embedding(plan.positions, plan.position_rows, width, OpKind::position_embedding));
        if (plan.positions_per_token) b.set_rows(positions, Rows::tokens);
        x = b.add(x, positions, "embeddings.sum", place::embedding);
    }
    if (plan.masks_embeddings) add_types();
    if (plan.task_rows > 0) {
        const int tasks = b.hold(b.embedding("embeddings.task_type_embeddings", plan.task_rows, width));
        b.last_op().attributes.own_ids = true;
        x = b.add(x, tasks, "embeddings.tasks_sum", place::embedding);
    }
    if (plan.projects_first && width != plan.hidden)
        x = b.linear(x, plan.projection, plan.hidden, false, place::embedding);
    x = b.norm(x, plan.embedding_norm, plan.norm, place::embedding);
    if (plan.masks_embeddings) {
        const int masked = b.tensor("embeddings.masked", b.width(x));
        b.op(OpKind::multiply, "embeddings.masked", place::embedding, {x}, {masked});
        x = masked;
    }
    return b.dropout(x, plan.embedding_dropout, plan.hidden_dropout, place::embedding);
}

Block build_stem(const EncoderPlan& plan, const std::vector<Tensor>& shared) {
    BlockBuilder b("embeddings");
    const std::int64_t width = plan.embedding_width > 0 ? plan.embedding_width : plan.hidden;
    int x = embeddings(b, plan, width);
    if (plan.groups > 0) b.hold_until_model_end(x);  // what is projected keeps its name
    if (!plan.projects_first && width != plan.hidden)
        x = b.linear(x, plan.projection, plan.hidden, true, place::embedding);
    if (plan.groups == 0 || width == plan.hidden) b.hold_until_model_end(x);
    std::vector<int> made{b.shared(0, shared)};
    if (plan.relative.rows > 0) made.push_back(b.shared(2, shared));
    OpAttributes& attributes =
        b.op(OpKind::attention_mask, shared[0].name, place::attention, {}, std::move(made)).attributes;
    attributes.causal = false;
    attributes.heads = plan.heads;
    attributes.form = plan.masks_embeddings ? AttentionForm::disentangled : plan.form;
    attributes.of_keys = plan.mask_of_keys;
    if (plan.masks_embeddings) relative_stem(b, plan, shared);
    if (plan.buckets > 0) {
        const int weight = b.parameter("encoder.relative_attention_bias.weight", {plan.buckets, plan.heads},
                                       Component::attention);
        OpAttributes& bias = b.op(OpKind::position_bias, shared[kExtra].name, place::attention, {},
                                  {b.shared(kExtra, shared)}, {weight}).attributes;
        bias.heads = plan.heads;
        bias.queries = bias.keys = Rows::positions;
        bias.of_batch = true;
    }
    if (plan.rotates) {
        const std::string name = "encoder.embed_positions";
        const int weight = b.parameter(join(name, "weight"), {plan.position_rows, plan.hidden / plan.heads},
                                       Component::embedding);
        b.parameter_named(join(name, "weight")).trainable = false;
        b.op(OpKind::rotary_tables, name, place::attention, {}, {b.shared(kExtra, shared)}, {weight})
            .attributes.rotation = Rotation::sinusoids;
    }
    return std::move(b).finish(x);
}

int attention(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared,
              const std::string& module, int x) {
    const auto function = b.scope();
    const auto project = [&](std::string_view name) {
        return b.hold(b.linear(x, join(module, name), plan.hidden, true, place::attention));
    };
    int q = project(plan.q);
    int k = project(plan.k);
    const int v = project(plan.v);
    const std::string name = join(module, plan.attention);
    if (plan.rotates) {
        b.release(q);
        b.release(k);
        const int rotated_q = b.hold(b.tensor(join(name, "query"), plan.hidden));
        const int rotated_k = b.hold(b.tensor(join(name, "key"), plan.hidden));
        OpAttributes& rotary = b.op(OpKind::rotary, join(name, "rotary"), place::attention,
                                    {q, k, b.shared(kExtra, shared)}, {rotated_q, rotated_k}).attributes;
        rotary.heads = rotary.kv_heads = plan.heads;
        rotary.head_dim = plan.hidden / plan.heads;
        rotary.rotation = Rotation::sinusoids;
        q = rotated_q;
        k = rotated_k;
    }
    std::vector<int> inputs{q, k, v, b.shared(0, shared)};
    if (plan.buckets > 0) inputs.push_back(b.shared(kExtra, shared));
    const int context = b.tensor(name, plan.hidden);
    OpAttributes& attributes = b.op(OpKind::attention, name, place::attention, std::move(inputs), {context}).attributes;
    attributes.form = plan.form;
    attributes.rotates = plan.rotates;
    attributes.heads = plan.heads;
    attributes.kv_heads = plan.heads;
    attributes.head_dim = plan.hidden / plan.heads;
    attributes.value_dim = attributes.head_dim;
    attributes.causal = false;
    attributes.softmax_in_dtype = true;
    attributes.dropout = plan.attention_dropout_p;
    if (!plan.output_inside) return context;
    return b.linear(b.hold(context), join(module, plan.o), plan.hidden, true, place::attention);
}

/// The attention with its output projection.
int attended_by(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared,
                const std::string& module, int x) {
    if (plan.output_inside) return attention(b, plan, shared, module, x);
    const int context = plan.masks_embeddings ? disentangled_attention(b, plan, shared, x)
                                              : attention(b, plan, shared, module, x);
    return b.linear(context, join(module, plan.o), plan.hidden, true, place::attention);
}

/// One layer; its modules are found under `module`.
int add_layer(BlockBuilder& b, const EncoderPlan& plan, const std::vector<Tensor>& shared,
              const std::string& module, int x) {
    /// norm(x + dropout(y)): the dropped-out value keeps its name until the norm is done.
    const auto add_and_norm = [&](int y, int residual, std::string_view dropout,
                                  std::string_view norm, Place place) {
        const auto name = b.scope();
        if (!dropout.empty()) y = b.hold(b.dropout(y, join(module, dropout), plan.hidden_dropout, place));
        const int sum = b.add(y, residual, join(join(module, norm), "residual"));
        const int normed = b.norm(sum, join(module, norm), plan.norm);
        if (dropout.empty()) b.last_op().inputs.push_back(y);  // the norm's result takes its name
        return normed;
    };
    const int projected = attended_by(b, plan, shared, module, x);
    const int attended = b.hold(add_and_norm(projected, x, plan.attention_dropout,
                                             plan.attention_norm, place::attention));
    const auto function = b.scope();
    const int up = b.linear(attended, join(module, plan.up), plan.width, true, place::mlp);
    const int active = b.hold(b.activation(up, join(module, plan.act_name), plan.act, place::mlp));
    const int down = b.linear(active, join(module, plan.down), plan.hidden, true, place::mlp);
    return add_and_norm(down, attended, plan.mlp_dropout, plan.mlp_norm, place::mlp);
}

/// `embeddings` in `shared`: the layer's input under that name too; -1: it has no other.
Block build_layer(const EncoderPlan& plan, const std::vector<Tensor>& shared, int embeddings = -1) {
    BlockBuilder b(embeddings < 0 ? "encoder layer" : "first encoder layer");
    const int x = b.input(plan.hidden);
    if (embeddings >= 0) {
        const int named = b.shared(embeddings, shared);
        b.op(OpKind::split, "embeddings", place::residual, {x}, {named}).attributes.same = true;
    }
    const int out = add_layer(b, plan, shared, "", x);
    b.set_checkpointable();
    return std::move(b).finish(out);
}

/// ALBERT: a group of layers as often as it is used, one after the other on the same parameters. It is one
/// block because a parameter's gradient is summed over all uses before it is a gradient.
Block build_group(const EncoderPlan& plan, const std::vector<Tensor>& shared, std::int64_t uses) {
    BlockBuilder b("layer group");
    int x = b.input(plan.hidden);
    if (uses > 1) b.release(x);
    for (std::int64_t use = 0; use < uses; ++use)
        for (std::int64_t i = 0; i < plan.inner; ++i) {
            const auto function = b.scope();
            x = add_layer(b, plan, shared, "albert_layers." + std::to_string(i), x);
        }
    return std::move(b).finish(x);
}

/// Layer i belongs to group i * groups / layers.
void add_groups(Model& model, const EncoderPlan& plan, const std::string& prefix) {
    for (std::int64_t g = 0, layer = 0; g < plan.groups; ++g) {
        std::int64_t uses = 0;
        while (layer < plan.layer_count && layer * plan.groups / plan.layer_count == g) ++layer, ++uses;
        model.sections.push_back({prefix, g, {static_cast<int>(model.blocks.size())}, 1});
        model.blocks.push_back(build_group(plan, model.shared, uses));
    }
}

/// The heads of a class: all of them read the last hidden states.
class HeadBuilder {
public:
    HeadBuilder(const EncoderPlan& plan, Head head, std::int64_t labels, Problem problem)
        : plan_(plan), head_(head), labels_(labels), problem_(problem), builder_("head") {}

    Block build();

private:
    int pooled(int x);
    int word_scores(int x);
    int detector(int x);
    int classes(int x);
    void classes_of_tokens(int x);
    int span_scores(int x);
    [[nodiscard]] std::string pooler() const {
        return plan_.pooler_in_head ? std::string(plan_.pooler) : in_base(plan_.pooler);
    }
    [[nodiscard]] std::string in_base(std::string_view name) const {
        return head_ == Head::base ? std::string(name) : join(plan_.base, name);
    }
    void loss(OpKind kind, std::vector<int> inputs) {
        const int out = builder_.tensor("loss", 1, Rows::one);
        builder_.op(kind, "loss", place::loss, std::move(inputs), {out});
    }

    const EncoderPlan& plan_;
    Head head_;
    std::int64_t labels_;
    Problem problem_;
    BlockBuilder builder_;
};

int HeadBuilder::pooled(int x) {
    // The first token of each sequence, a view.
    const int first = builder_.tensor("first_token", plan_.hidden, Rows::batch);
    builder_.op(OpKind::split, "first_token", place::head, {x}, {first});
    const int dense = builder_.linear(first, pooler(), plan_.hidden, true, place::head);
    return builder_.hold(builder_.activation(dense, in_base("pooler.activation"), Act::tanh,
                                             place::head));
}

int HeadBuilder::word_scores(int x) {
    const std::int64_t width = plan_.mlm_width > 0         ? plan_.mlm_width
                               : plan_.embedding_width > 0 ? plan_.embedding_width
                                                           : plan_.hidden;
    int y = builder_.linear(x, plan_.mlm_dense, width, true, place::head);
    y = builder_.activation(y, plan_.mlm_act, plan_.mlm_activation, place::head);
    y = builder_.norm(y, plan_.mlm_norm, norms::layer, place::head);
    int bias = -1;
    if (plan_.mlm_bias_is_shared)
        bias = builder_.parameter(std::string(plan_.mlm_bias), {plan_.vocabulary}, Component::head);
    const int scores =
        builder_.hold(builder_.linear(y, plan_.mlm_decoder, plan_.vocabulary, true, place::head));
    if (plan_.tied)
        builder_.parameter_named(join(plan_.mlm_decoder, "weight")).tied_to =
            join(join(plan_.base, plan_.word), "weight");
    if (bias >= 0 && plan_.tied) {
        // The decoder's bias is another name for the head's: ops refer to the one that has storage.
        builder_.parameter_named(join(plan_.mlm_decoder, "bias")).tied_to = plan_.mlm_bias;
        builder_.last_op().parameters.back() = bias;
    }
    return scores;
}

int HeadBuilder::detector(int x) {
    int y = builder_.linear(x, join(plan_.discriminator, "dense"), plan_.hidden, true, place::head);
    y = builder_.activation(y, join(plan_.discriminator, "activation"), plan_.act, place::head);
    return builder_.hold(
        builder_.linear(y, join(plan_.discriminator, "dense_prediction"), 1, true, place::head));
}

int HeadBuilder::classes(int x) {
    if (!plan_.classifier_dense && plan_.pre_classifier.empty()) {
        const int y = builder_.dropout(pooled(x), "dropout", plan_.hidden_dropout, place::head);
        return builder_.linear(y, plan_.classifier, labels_, true, place::head);
    }
    const int first = builder_.tensor("first_token", plan_.hidden, Rows::batch);
    builder_.op(OpKind::split, "first_token", place::head, {x}, {first});
    if (plan_.classifier_dense) {
        int y = builder_.dropout(first, join(plan_.classifier, "dropout"), plan_.hidden_dropout,
                             place::head);
        y = builder_.linear(y, join(plan_.classifier, "dense"), plan_.hidden, true, place::head);
        y = builder_.activation(y, join(plan_.classifier, "activation"), Act::tanh, place::head);
        return builder_.linear(y, join(plan_.classifier, "out_proj"), labels_, true, place::head);
    }
    int y = builder_.linear(first, plan_.pre_classifier, plan_.hidden, true, place::head);
    y = builder_.activation(y, "relu", Act::relu, place::head);
    y = builder_.hold(builder_.dropout(y, "dropout", plan_.classifier_dropout, place::head));
    return builder_.linear(y, plan_.classifier, labels_, true, place::head);
}

void HeadBuilder::classes_of_tokens(int x) {
    x = builder_.hold(builder_.dropout(x, "dropout", plan_.hidden_dropout, place::head));
    classification_loss(builder_, builder_.hold(builder_.linear(x, "classifier", labels_, true, place::head)),
                        Problem::single_label);
}

int HeadBuilder::span_scores(int x) {
    if (plan_.span_dropout) x = builder_.hold(builder_.dropout(x, "dropout", *plan_.span_dropout, place::head));
    return builder_.hold(builder_.linear(x, "qa_outputs", labels_, true, place::head));
}

Block HeadBuilder::build() {
    const int x = builder_.input(plan_.hidden);
    const bool pools = !plan_.pooler.empty() && !plan_.pooler_in_head &&
                       (head_ == Head::base || head_ == Head::next_sentence ||
                        (head_ == Head::pretraining && plan_.discriminator.empty()));
    const int summary = pools ? pooled(x) : -1;
    if (head_ != Head::classification) builder_.end_base_model();
    switch (head_) {
        case Head::base:
            loss(OpKind::pooler_loss, {pools ? summary : x});
            break;
        case Head::masked_lm:
            loss(OpKind::masked_lm_loss, {word_scores(x)});
            break;
        case Head::pretraining:
            if (!plan_.discriminator.empty()) {
                loss(OpKind::pooler_loss, {detector(x)});
            } else {
                const int scores = word_scores(x);
                const int order = builder_.hold(
                    builder_.linear(summary, plan_.next_sentence, 2, true, place::head));
                loss(OpKind::masked_lm_loss, {scores});
                loss(OpKind::pooler_loss, {order});
            }
            break;
        case Head::token_classes:
            classes_of_tokens(x);
            break;
        case Head::spans:
            loss(OpKind::span_loss, {span_scores(x)});
            break;
        case Head::next_sentence:
            classification_loss(
                builder_, builder_.hold(builder_.linear(summary, plan_.next_sentence, 2, true, place::head)),
                Problem::single_label);
            break;
        case Head::classification:
            classification_loss(builder_, builder_.hold(classes(x)), problem_);
            break;
    }
    return std::move(builder_).finish(-1);
}

Head head_of(std::string_view architecture) {
    if (architecture.ends_with("ForMaskedLM")) return Head::masked_lm;
    if (architecture.ends_with("ForPreTraining")) return Head::pretraining;
    if (architecture.ends_with("ForNextSentencePrediction")) return Head::next_sentence;
    if (architecture.ends_with("ForSequenceClassification")) return Head::classification;
    if (architecture.ends_with("ForTokenClassification")) return Head::token_classes;
    if (architecture.ends_with("ForQuestionAnswering")) return Head::spans;
    return Head::base;
}

}  // namespace

Result<Model> encoder_family(const Family& family, const KeyTree& config,
                             std::string_view architecture, ConfigureEncoder configure) {
    Diagnostics diagnostics;
    const std::string chosen = choose_architecture(family, config, architecture, diagnostics);
    ConfigReader reader(config, "", family.name, family.keys, diagnostics);
    EncoderPlan plan;
    configure(reader, plan);
    const std::int64_t labels = label_count(config);
    const Problem problem = problem_of(config, labels, diagnostics);
    if (!diagnostics.empty()) return diagnostics;

    const Head head = head_of(chosen);
    const std::string base = head == Head::base ? std::string() : std::string(plan.base) + ".";
    Model model;
    Tensor mask;
    mask.name = "attention_mask";
    mask.rows = Rows::one;
    mask.shared = 0;
    model.shared.push_back(mask);
    if (plan.relative.rows > 0)
        for (Tensor& tensor : relative_tensors(plan)) model.shared.push_back(std::move(tensor));
    if (plan.rotates)
        declare_tensor(model.shared, "sinusoids", plan.hidden / plan.heads, Rows::positions);
    if (plan.buckets > 0) declare_tensor(model.shared, "position bias", 0, Rows::one);
    const std::string layers = base + std::string(plan.layers) + ".{}.";
    add_section(model, base, build_stem(plan, model.shared), 1);
    if (plan.groups > 0) {
        add_groups(model, plan, layers);
    } else if (plan.relative.conv_kernel > 0) {
        const int embeddings = declare_tensor(model.shared, "embeddings", plan.hidden, Rows::tokens);
        add_section(model, layers, build_layer(plan, model.shared, embeddings), 1);
        add_section(model, base, relative_convolution(plan, model.shared, embeddings), 1);
        if (plan.layer_count > 1) add_section(model, layers, build_layer(plan, model.shared), plan.layer_count - 1);
        model.sections.back().first_index = plan.layer_count > 1 ? 1 : 0;
    } else {
        add_section(model, layers, build_layer(plan, model.shared), plan.layer_count);
    }
    add_section(model, "", HeadBuilder(plan, head, labels, problem).build(), 1);

    model.inputs = {{"ids"}};
    if (head == Head::masked_lm || head == Head::pretraining) model.inputs.push_back({"labels"});
    if (head == Head::classification) model.inputs.push_back(class_labels(Rows::batch, labels, problem));
    if (head == Head::next_sentence) model.inputs.push_back({"labels", Rows::batch});
    if (head == Head::token_classes) model.inputs.push_back({"labels"});
    if (head == Head::spans)
        for (const std::string_view name : {"start positions", "end positions"}) model.inputs.push_back({name, Rows::batch});
    note_origin(model, family, chosen, reader);
    model.step_unsupported = plan.step_unsupported;
    if (head == Head::spans && labels != 2)
        model.step_unsupported = "the class takes its logits apart in two: num_labels must be 2";
    model.facts.hidden_size = plan.hidden;
    model.facts.layers = plan.layer_count;
    model.facts.heads = plan.heads;
    model.facts.kv_heads = plan.heads;
    model.facts.head_dim = plan.hidden / plan.heads;
    model.facts.intermediate_size = plan.width;
    model.facts.vocab_size = plan.vocabulary;
    return model;
}

void read_encoder_sizes(ConfigReader& config, EncoderPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.position_rows = config.size("max_position_embeddings");
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", plan.hidden, "num_attention_heads", plan.heads);
}

void configure_bert(ConfigReader& config, EncoderPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.position_rows = config.size("max_position_embeddings");
    plan.type_rows = config.size("type_vocab_size");
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", plan.hidden, "num_attention_heads", plan.heads);
    plan.width = config.size("intermediate_size");
    plan.act = config.activation("hidden_act");
    plan.mlm_activation = plan.act;
    plan.hidden_dropout = config.probability("hidden_dropout_prob");
    plan.attention_dropout_p = config.probability("attention_probs_dropout_prob");
    plan.tied = config.flag("tie_word_embeddings");
    for (const std::string_view key : {"is_decoder", "add_cross_attention"})
        if (config.flag(key))
            config.unsupported(key, "expected an encoder without cross-attention; got true");
}

void configure_roberta(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "roberta";
    plan.positions_per_token = true;  // positions skip padding, so each sequence has its own
    plan.mlm_bias = "lm_head.bias";
    plan.mlm_dense = "lm_head.dense";
    plan.mlm_act = "lm_head.gelu";
    plan.mlm_norm = "lm_head.layer_norm";
    plan.mlm_decoder = "lm_head.decoder";
    plan.mlm_activation = Act::gelu;
    plan.next_sentence = "";
    plan.classifier_dense = true;
}

void configure_electra(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "electra";
    plan.embedding_width = config.size("embedding_size");
    plan.projection = "embeddings_project";
    plan.pooler = "";
    plan.mlm_dense = "generator_predictions.dense";
    plan.mlm_act = "generator_predictions.activation";
    plan.mlm_norm = "generator_predictions.LayerNorm";
    plan.mlm_decoder = "generator_lm_head";
    plan.mlm_activation = Act::gelu;
    plan.mlm_bias_is_shared = false;
    plan.discriminator = "discriminator_predictions";
    plan.classifier_dense = true;
}

void configure_distilbert(ConfigReader& config, EncoderPlan& plan) {
    plan.base = "distilbert";
    plan.layers = "transformer.layer";
    plan.q = "attention.q_lin";
    plan.k = "attention.k_lin";
    plan.v = "attention.v_lin";
    plan.attention = "attention.attention";
    plan.o = "attention.out_lin";
    plan.attention_dropout = "";
    plan.attention_norm = "sa_layer_norm";
    plan.up = "ffn.lin1";
    plan.act_name = "ffn.activation";
    plan.down = "ffn.lin2";
    plan.mlp_dropout = "ffn.dropout";
    plan.mlp_norm = "output_layer_norm";
    plan.pooler = "";
    plan.mlm_bias_is_shared = false;
    plan.mlm_dense = "vocab_transform";
    plan.mlm_act = "activation";
    plan.mlm_norm = "vocab_layer_norm";
    plan.mlm_decoder = "vocab_projector";
    read_encoder_sizes(config, plan);
    plan.width = config.size("hidden_dim");
    plan.act = config.activation("activation");
    plan.mlm_activation = plan.act;
    plan.hidden_dropout = config.probability("dropout");
    plan.attention_dropout_p = config.probability("attention_dropout");
    plan.span_dropout = config.probability("qa_dropout");
    plan.pre_classifier = "pre_classifier";
    plan.classifier_dropout = config.probability("seq_classif_dropout");
    plan.tied = config.flag("tie_word_embeddings");
}

void configure_albert(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "albert";
    plan.embedding_width = config.size("embedding_size");
    plan.projection = "encoder.embedding_hidden_mapping_in";
    plan.layers = "encoder.albert_layer_groups";
    plan.groups = config.size("num_hidden_groups", kLargestCount);
    plan.inner = config.size("inner_group_num", 1024);
    // The layers are not folded: their number is the cost.
    if (plan.layer_count * plan.inner > kMostSharedLayers) {
        config.unsupported("num_hidden_layers", "expected at most 1024 uses of shared layers");
        plan.layer_count = plan.inner = 1;
    }
    plan.q = "attention.query";
    plan.k = "attention.key";
    plan.v = "attention.value";
    plan.attention = "attention.attention";
    plan.o = "attention.dense";
    plan.attention_dropout = "attention.output_dropout";
    plan.attention_norm = "attention.LayerNorm";
    plan.up = "ffn";
    plan.act_name = "activation";
    plan.down = "ffn_output";
    plan.mlp_dropout = "";
    plan.mlp_norm = "full_layer_layer_norm";
    plan.pooler = "pooler";
    plan.mlm_bias = "predictions.bias";
    plan.mlm_dense = "predictions.dense";
    plan.mlm_act = "predictions.activation";
    plan.mlm_norm = "predictions.LayerNorm";
    plan.mlm_decoder = "predictions.decoder";
    plan.next_sentence = "sop_classifier.classifier";
}

}  // namespace membudget
