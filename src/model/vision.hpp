#pragma once

/// Vision towers: parameters only.

#include "model/parts.hpp"

namespace membudget {

namespace vision_keys {
inline constexpr std::string_view siglip =
    "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 "
    "num_channels=3 image_size=224 patch_size=16 vision_use_head=true";
inline constexpr std::string_view clip =
    "hidden_size=768 intermediate_size=3072 projection_dim=512 num_hidden_layers=12 "
    "num_attention_heads=12 num_channels=3 image_size=224 patch_size=32";
/// LLaVA's own defaults for the CLIP tower of a config without one.
inline constexpr std::string_view clip_in_llava =
    "hidden_size=1024 intermediate_size=4096 projection_dim=768 num_hidden_layers=24 "
    "num_attention_heads=16 num_channels=3 image_size=336 patch_size=14";
}  // namespace vision_keys

/// The image encoder of CLIP or SigLIP.
struct ContrastiveVision {
    std::int64_t hidden = 1, width = 1, layers = 1, channels = 3, patch = 1, patches = 1;
    bool head = false;  ///< SigLIP's pooling by attention
    bool clip = false;  ///< class token, norm before the layers, patch convolution without bias
};
[[nodiscard]] ContrastiveVision read_siglip_vision(ConfigReader& config);
[[nodiscard]] ContrastiveVision read_clip_vision(ConfigReader& config);
void add_contrastive_vision(Parts& parts, std::string_view prefix, const ContrastiveVision& vision);
/// The head of SigLIP's image encoder, where its config has one; the prefix is that of its module.
void add_siglip_head(Parts& parts, std::string_view prefix, const ContrastiveVision& vision,
                     Component component);
/// One layer of CLIP's and SigLIP's text and image encoders.
void contrastive_layer(BlockBuilder& builder, std::int64_t hidden, std::int64_t width,
                       Component component);

/// Towers that read `vision_config` of a multimodal config.
void add_qwen2_vision(Parts& parts, ConfigReader& config);
void add_qwen2_5_vision(Parts& parts, ConfigReader& config);
/// `deep`: features of some layers join the decoder on their own.
void add_qwen3_vision(Parts& parts, ConfigReader& config, bool deep);
void add_glm4v_vision(Parts& parts, ConfigReader& config);
void add_llama4_vision(Parts& parts, ConfigReader& config, std::int64_t text_hidden);
void add_internvit(Parts& parts, ConfigReader& config, std::int64_t text_hidden);

}  // namespace membudget
