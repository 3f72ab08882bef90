#pragma once

/// One builder for BERT and the encoders of its shape: embeddings of words, positions and types;
/// layers that normalise after each residual sum; heads for masked words, classes, or none.

#include <cstdint>
#include <optional>
#include <string_view>

#include "membudget/model.hpp"
#include "model/blocks.hpp"
#include "model/config.hpp"

namespace membudget {

/// DeBERTa's relative positions; without rows there are none.
struct RelativePositions {
    std::int64_t rows = 0;         ///< of the table: both directions
    bool by_key = false;           ///< "c2p": positions as keys
    bool by_query = false;         ///< "p2c": positions as queries
    bool shared_keys = false;      ///< the projections of contents serve positions too
    bool normed = false;           ///< a norm over the table
    bool joined = false;           ///< DeBERTa v1: one projection, and other names
    /// A convolution behind the first layer; 0: none.
    std::int64_t conv_kernel = 0, conv_groups = 1;
    Act conv_act = Act::tanh;
};

/// How an encoder's modules are named and which parts it has.
struct EncoderPlan {
    std::string_view base = "bert";
    std::string_view word = "embeddings.word_embeddings";
    std::string_view positions = "embeddings.position_embeddings";
    std::string_view types = "embeddings.token_type_embeddings";
    std::string_view embedding_norm = "embeddings.LayerNorm";
    std::string_view embedding_dropout = "embeddings.dropout";
    std::string_view projection;             ///< from the embeddings' width to the hidden size
    std::string_view layers = "encoder.layer";
    std::string_view q = "attention.self.query", k = "attention.self.key",
                     v = "attention.self.value", attention = "attention.self.attention",
                     o = "attention.output.dense",
                     attention_dropout = "attention.output.dropout",
                     attention_norm = "attention.output.LayerNorm";
    std::string_view up = "intermediate.dense", act_name = "intermediate.intermediate_act_fn",
                     down = "output.dense", mlp_dropout = "output.dropout",
                     mlp_norm = "output.LayerNorm";
    bool positions_per_token = false;
    std::int64_t hidden = 1, vocabulary = 1, position_rows = 1, type_rows = 0;
    std::int64_t embedding_width = 0;        ///< 0: hidden
    std::int64_t layer_count = 1, heads = 1, width = 1;
    Act act = Act::gelu;
    Norm norm = norms::layer;                ///< of the embeddings and the layers
    double hidden_dropout = 0, attention_dropout_p = 0;
    std::optional<double> span_dropout;      ///< before the head for questions; absent: there is none
    bool tied = true;

    /// Names of the heads; empty where the family has none.
    std::string_view pooler = "pooler.dense";
    std::string_view mlm_bias = "cls.predictions.bias";
    std::string_view mlm_dense = "cls.predictions.transform.dense";
    std::string_view mlm_act = "cls.predictions.transform.transform_act_fn";
    std::string_view mlm_norm = "cls.predictions.transform.LayerNorm";
    std::string_view mlm_decoder = "cls.predictions.decoder";
    Act mlm_activation = Act::gelu;
    bool mlm_bias_is_shared = true;          ///< `mlm_bias` is a parameter that the decoder also names
    std::string_view next_sentence = "cls.seq_relationship";
    std::string_view discriminator;          ///< ELECTRA: dense layers of the detector of replacements
    std::string_view classifier = "classifier";
    std::string_view pre_classifier;         ///< DistilBERT: a linear module and a ReLU before the classifier; empty: none
    double classifier_dropout = 0;           ///< behind it
    bool classifier_dense = false;           ///< RoBERTa: `classifier.dense`, `classifier.out_proj`
    std::string step_unsupported;
    std::int64_t task_rows = 0;              ///< ERNIE: embeddings of tasks; 0: none
    std::int64_t mlm_width = 0;              ///< of the head for masked words; 0: that of the embeddings

    AttentionForm form = AttentionForm::shared;
    bool mask_of_keys = false;               ///< see `OpAttributes::of_keys`
    bool rotates = false;                    ///< RoFormer: queries and keys, by a table of sinusoids
    bool output_inside = false;              ///< the attention's function has the output projection
    std::int64_t buckets = 0;                ///< of a bias by distance that all layers add; 0: none
    RelativePositions relative;
    bool absolute_positions = true;
    bool pooler_in_head = false;             ///< the pooler is the classifier's, not the base model's
    bool masks_embeddings = false;           ///< embeddings are multiplied by the padding mask
    bool projects_first = false;             ///< the projection comes before the norm, without a bias
    /// ALBERT: `groups` sets of parameters of `inner` layers each, used again and again; 0: each layer has
    /// its own.
    std::int64_t groups = 0, inner = 1;
};

using ConfigureEncoder = void (*)(ConfigReader& config, EncoderPlan& plan);
[[nodiscard]] Result<Model> encoder_family(const Family& family, const KeyTree& config,
                                           std::string_view architecture,
                                           ConfigureEncoder configure);
template <ConfigureEncoder Configure>
Result<Model> build_encoder_family(const Family& family, const KeyTree& config,
                                   std::string_view architecture) {
    return encoder_family(family, config, architecture, Configure);
}

/// Width, vocabulary, positions, layers and heads of an encoder without types of tokens.
void read_encoder_sizes(ConfigReader& config, EncoderPlan& plan);

void configure_bert(ConfigReader& config, EncoderPlan& plan);
void configure_roberta(ConfigReader& config, EncoderPlan& plan);
void configure_electra(ConfigReader& config, EncoderPlan& plan);
void configure_distilbert(ConfigReader& config, EncoderPlan& plan);
void configure_albert(ConfigReader& config, EncoderPlan& plan);
void configure_ernie(ConfigReader& config, EncoderPlan& plan);
void configure_roformer(ConfigReader& config, EncoderPlan& plan);
void configure_rembert(ConfigReader& config, EncoderPlan& plan);
void configure_mpnet(ConfigReader& config, EncoderPlan& plan);
void configure_deberta(ConfigReader& config, EncoderPlan& plan);
void configure_deberta_v2(ConfigReader& config, EncoderPlan& plan);

}  // namespace membudget
