/// Encoders in BERT's modules of which the parameters are known and no step has been measured.

#include "model/encoder.hpp"

namespace membudget {

void configure_ernie(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "ernie";
    if (config.flag("use_task_id"))
        plan.extra = [rows = config.size("task_type_vocab_size"), hidden = plan.hidden](BlockBuilder& b) {
            b.parameter("embeddings.task_type_embeddings.weight", {rows, hidden}, Component::embedding);
        };
    plan.step_unsupported = kCountedOnly;
}

void configure_roformer(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "roformer";
    plan.embedding_width = config.size_or("embedding_size", plan.hidden);
    plan.projection = "embeddings_project";
    plan.absolute_positions = false;
    plan.pooler = "";
    plan.classifier_dense = true;
    // The angles of the rotation are a parameter that the class freezes.
    plan.extra = [rows = plan.position_rows, width = plan.hidden / plan.heads](BlockBuilder& b) {
        b.parameter("encoder.embed_positions.weight", {rows, width}, Component::embedding);
        b.parameter_named("encoder.embed_positions.weight").trainable = false;
    };
    plan.step_unsupported = kCountedOnly;
}

void configure_rembert(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "rembert";
    plan.embedding_width = config.size("input_embedding_size");
    plan.projection = "encoder.embedding_hidden_mapping_in";
    plan.mlm_width = config.size("output_embedding_size");
    plan.mlm_bias_is_shared = false;
    plan.mlm_dense = "cls.predictions.dense";
    plan.mlm_norm = "cls.predictions.LayerNorm";
    if (plan.tied) config.unsupported("tie_word_embeddings", "expected false: the two matrices have other widths");
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
