#pragma once

/// Plans of the families that are Llama with other choices: norms, biases, windows, norms of queries
/// and keys. Each function reads the config of one class.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder.hpp"

namespace membudget {

/// Keys that almost every decoder has: hidden, vocabulary, layers, tied embeddings.
void read_decoder_sizes(ConfigReader& config, DecoderPlan& plan);
/// What to do with a hidden size that the heads do not divide, where no key gives the head size.
enum class Remainder {
    refused,  ///< most classes raise an error
    dropped,  ///< some round down without a word
};
/// Heads, key-value heads and head size, with the derived defaults of absent and null keys.
void read_heads(ConfigReader& config, std::int64_t hidden, AttentionPlan& attention,
                Remainder remainder = Remainder::refused);
/// Dimensions of each head that are rotated: a fraction of the head, which the file gives as
/// `partial_rotary_factor` or `rotary_pct`, of its own or in `rope_parameters`.
[[nodiscard]] std::int64_t read_rotary_dim(ConfigReader& config, std::int64_t head_dim,
                                           double default_fraction);
/// The same for the layers of one type, where `rope_parameters` has an object for each.
[[nodiscard]] std::int64_t read_layer_rotary_dim(ConfigReader& config, std::string_view type, std::int64_t head_dim,
                                                 double default_fraction);
/// The whole of Llama.
void read_llama(ConfigReader& config, DecoderPlan& plan);
/// Each sublayer's result is normalised before it is added; its input is not.
void norm_results_only(LayerPlan& layer);

/// The words of `key`, one for each layer; empty where the file has none. A list of another length is a mistake;
/// `trailing` further words, of layers that are not counted, are dropped.
[[nodiscard]] std::vector<std::string> layer_words(ConfigReader& config, std::string_view key, std::int64_t layers,
                                                   std::int64_t trailing = 0);
/// Whether each layer is `yes`: the words of `layer_types`, which are `yes` and `no`; empty where the file has none.
[[nodiscard]] std::vector<bool> layers_of_type(ConfigReader& config, std::int64_t layers, std::string_view yes,
                                               std::string_view no);
/// Of each `period` layers all but the last; none where the period is 0.
[[nodiscard]] constexpr bool all_but_each_last(std::int64_t layer, std::int64_t period) {
    return period > 0 && (layer + 1) % period != 0;
}
/// Per layer, whether its attention has a window: `layer_types`, else `derived(layer, parameter)`.
[[nodiscard]] std::vector<bool> windowed_layers(ConfigReader& config, std::int64_t layers,
                                                bool (*derived)(std::int64_t layer,
                                                                std::int64_t parameter),
                                                std::int64_t parameter);
/// Gives a window to some layers of a plan.
void alternate_windows(DecoderPlan& plan, const std::vector<bool>& windowed, std::int64_t window);
/// Windows from layer `max_window_layers` on, where the class has them at all (`use_sliding_window`).
void read_last_windows(ConfigReader& config, DecoderPlan& plan);

void configure_llama(ConfigReader& config, DecoderPlan& plan);
void configure_mistral(ConfigReader& config, DecoderPlan& plan);
void configure_qwen2(ConfigReader& config, DecoderPlan& plan);
void configure_qwen3(ConfigReader& config, DecoderPlan& plan);
void configure_gemma(ConfigReader& config, DecoderPlan& plan);
void configure_gemma2(ConfigReader& config, DecoderPlan& plan);
void configure_gemma3(ConfigReader& config, DecoderPlan& plan);
void configure_phi3(ConfigReader& config, DecoderPlan& plan);
void configure_stablelm(ConfigReader& config, DecoderPlan& plan);
void configure_cohere(ConfigReader& config, DecoderPlan& plan);
void configure_cohere2(ConfigReader& config, DecoderPlan& plan);
void configure_olmo(ConfigReader& config, DecoderPlan& plan);
void configure_olmo2(ConfigReader& config, DecoderPlan& plan);
void configure_olmo3(ConfigReader& config, DecoderPlan& plan);
void configure_glm(ConfigReader& config, DecoderPlan& plan);
void configure_glm4(ConfigReader& config, DecoderPlan& plan);
void configure_granite(ConfigReader& config, DecoderPlan& plan);
void configure_smollm3(ConfigReader& config, DecoderPlan& plan);
void configure_minicpm(ConfigReader& config, DecoderPlan& plan);
void configure_internlm(ConfigReader& config, DecoderPlan& plan);
void configure_internlm2(ConfigReader& config, DecoderPlan& plan);
void configure_mimo(ConfigReader& config, DecoderPlan& plan);
void configure_qwen(ConfigReader& config, DecoderPlan& plan);
void configure_chatglm(ConfigReader& config, DecoderPlan& plan);
void configure_baichuan(ConfigReader& config, DecoderPlan& plan);
void configure_nemotron(ConfigReader& config, DecoderPlan& plan);
void configure_seed_oss(ConfigReader& config, DecoderPlan& plan);
void configure_ernie4_5(ConfigReader& config, DecoderPlan& plan);
void configure_hunyuan_dense(ConfigReader& config, DecoderPlan& plan);
void configure_exaone4(ConfigReader& config, DecoderPlan& plan);
void configure_arcee(ConfigReader& config, DecoderPlan& plan);
void configure_helium(ConfigReader& config, DecoderPlan& plan);
void configure_cwm(ConfigReader& config, DecoderPlan& plan);
void configure_ministral(ConfigReader& config, DecoderPlan& plan);
void configure_granite_swa(ConfigReader& config, DecoderPlan& plan);
void configure_bitnet(ConfigReader& config, DecoderPlan& plan);
void configure_hyperclovax(ConfigReader& config, DecoderPlan& plan);
void configure_diffllama(ConfigReader& config, DecoderPlan& plan);
void configure_nanochat(ConfigReader& config, DecoderPlan& plan);
void configure_apertus(ConfigReader& config, DecoderPlan& plan);
void configure_jais2(ConfigReader& config, DecoderPlan& plan);
void configure_vaultgemma(ConfigReader& config, DecoderPlan& plan);

}  // namespace membudget
