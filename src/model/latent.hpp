#pragma once

/// Multi-head latent attention, and the decoders that have it.

#include <cstdint>

#include "model/decoder.hpp"

namespace membudget {

/// Sizes of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct Latent {
    std::int64_t hidden = 1, heads = 1;
    std::int64_t query_rank = 0;  ///< 0: queries are projected directly
    std::int64_t rank = 1, rotated = 1, plain = 1, value = 1;
    bool bias = false;
    double dropout = 0;
    Rotation rotation = Rotation::latent;
    /// The indexer of sparse attention; 0 heads: none.
    std::int64_t index_heads = 0, index_dim = 0, index_top = 0;
    bool index_interleaved = false;  ///< the indexer rotates neighbours
    bool index_passed_on = false;    ///< the next layer gets its choice
    bool index_shared = false;       ///< there is no indexer: the layer before has passed its choice on
};

/// The keys of DeepSeek's classes.
[[nodiscard]] Latent read_latent(ConfigReader& config, std::int64_t hidden);
/// Attention of a plan, and what follows from it for masks and tables.
void use_latent(AttentionPlan& attention, const Latent& latent);

void configure_deepseek(ConfigReader& config, DecoderPlan& plan);
void configure_glm4_moe_lite(ConfigReader& config, DecoderPlan& plan);
void configure_glm_moe_dsa(ConfigReader& config, DecoderPlan& plan);
void configure_youtu(ConfigReader& config, DecoderPlan& plan);
void configure_deepseek_v32(ConfigReader& config, DecoderPlan& plan);
void configure_longcat_flash(ConfigReader& config, DecoderPlan& plan);
void configure_minicpm3(ConfigReader& config, DecoderPlan& plan);

}  // namespace membudget
