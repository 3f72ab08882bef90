/// Encoders in BERT's modules that differ from it in few of them.

#include "model/encoder.hpp"

namespace membudget {

void configure_ernie(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "ernie";
    if (config.flag("use_task_id")) plan.task_rows = config.size("task_type_vocab_size");
}

void configure_roformer(ConfigReader& config, EncoderPlan& plan) {
    configure_bert(config, plan);
    plan.base = "roformer";
    plan.embedding_width = config.size_or("embedding_size", plan.hidden);
    plan.projection = "embeddings_project";
    plan.absolute_positions = false;
    plan.pooler = "";
    plan.classifier_dense = true;
    plan.rotates = plan.mask_of_keys = true;
    plan.form = AttentionForm::returned;
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
    plan.form = AttentionForm::returned;
    if (plan.tied) config.unsupported("tie_word_embeddings", "expected false: the two matrices have other widths");
}

void configure_mpnet(ConfigReader& config, EncoderPlan& plan) {
    read_encoder_sizes(config, plan);
    plan.width = config.size("intermediate_size");
    plan.act = config.activation("hidden_act");
    plan.hidden_dropout = config.probability("hidden_dropout_prob");
    plan.attention_dropout_p = config.probability("attention_probs_dropout_prob");
    plan.tied = config.flag("tie_word_embeddings");
    plan.buckets = config.size("relative_attention_num_buckets");
    plan.base = "mpnet";
    plan.positions_per_token = true;  // positions skip padding, so each sequence has its own
    plan.output_inside = plan.classifier_dense = true;
    plan.form = AttentionForm::mpnet;
    plan.q = "attention.attn.q";
    plan.k = "attention.attn.k";
    plan.v = "attention.attn.v";
    plan.attention = "attention.attn.attention";
    plan.o = "attention.attn.o";
    plan.attention_dropout = "attention.dropout";
    plan.attention_norm = "attention.LayerNorm";
    plan.mlm_bias = "lm_head.bias";
    plan.mlm_dense = "lm_head.dense";
    plan.mlm_act = "lm_head.gelu";
    plan.mlm_norm = "lm_head.layer_norm";
    plan.mlm_decoder = "lm_head.decoder";
}

}  // namespace membudget
