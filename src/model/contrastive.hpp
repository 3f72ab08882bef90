#pragma once

/// The encoders of CLIP (arXiv:2103.00020) and SigLIP (arXiv:2303.15343), which language models use
/// as vision towers too.

#include "model/parts.hpp"

namespace membudget {

namespace vision_keys {
inline constexpr std::string_view siglip =
    "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 "
    "num_channels=3 image_size=224 patch_size=16 hidden_act=gelu_pytorch_tanh attention_dropout=0.0 "
    "vision_use_head=true";
inline constexpr std::string_view clip =
    "hidden_size=768 intermediate_size=3072 projection_dim=512 num_hidden_layers=12 "
    "num_attention_heads=12 num_channels=3 image_size=224 patch_size=32 hidden_act=quick_gelu "
    "attention_dropout=0.0";
inline constexpr std::string_view siglip2 =
    "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 "
    "num_channels=3 patch_size=16 num_patches=256 hidden_act=gelu_pytorch_tanh attention_dropout=0.0 "
    "vision_use_head=true";
/// LLaVA's own defaults for the CLIP tower of a config without one.
inline constexpr std::string_view clip_in_llava =
    "hidden_size=1024 intermediate_size=4096 projection_dim=768 num_hidden_layers=24 "
    "num_attention_heads=16 num_channels=3 image_size=336 patch_size=14 hidden_act=quick_gelu "
    "attention_dropout=0.0";
}  // namespace vision_keys

/// An encoder of either model.
struct ContrastiveTower {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1;
    Act act = Act::quick_gelu;
    double attention_dropout = 0;
};

/// The image encoder.
struct ContrastiveVision : ContrastiveTower {
    std::int64_t channels = 3, image = 1, patch = 1, patches = 1;
    bool head = false;  ///< SigLIP's pooling by attention
    bool clip = false;  ///< class token, norm before the layers, patch convolution without bias
    bool stacked = false;  ///< images come as tiles of several, which are copied together first
    bool flat = false;  ///< patches come cut out of images of any shape, for a linear module

    /// Rows per image: its patches, and CLIP's class token.
    [[nodiscard]] std::int64_t rows() const { return patches + (clip ? 1 : 0); }
    [[nodiscard]] ImageShape shape() const { return {channels, image, image, rows(), patches, 0}; }
};
/// Sizes alone, of towers whose layers are others.
[[nodiscard]] ContrastiveVision read_vision_sizes(ConfigReader& config);
[[nodiscard]] ContrastiveVision read_siglip_vision(ConfigReader& config);
[[nodiscard]] ContrastiveVision read_clip_vision(ConfigReader& config);

/// The beginning of the image encoder, under `prefix`.
[[nodiscard]] Block contrastive_vision_stem(const ContrastiveVision& vision);
/// A layer of it; `named`: its input is this tensor of `Model::shared` too.
[[nodiscard]] Block contrastive_vision_layer(const ContrastiveVision& vision, const Tensor* named = nullptr);
/// The ops of a layer inside a block that is not a layer, under the module `name`, from `x`.
int add_vision_layer(BlockBuilder& builder, const ContrastiveVision& vision, std::string_view name, int x);
/// SigLIP's pooling of an image's patches `x` by attention, whose modules are found under `head`.
int add_siglip_pool(BlockBuilder& builder, const ContrastiveVision& vision, const std::string& head, int x);
/// Parameters alone: the whole encoder, and SigLIP's head where the config has one.
void add_contrastive_vision(Parts& parts, std::string_view prefix, const ContrastiveVision& vision);

void configure_clip_text(ConfigReader& config, Parts& parts);
void configure_clip(ConfigReader& config, Parts& parts);
void configure_siglip(ConfigReader& config, Parts& parts);
void configure_siglip2(ConfigReader& config, Parts& parts);
void configure_clip_vision(ConfigReader& config, Parts& parts);
void configure_siglip_vision(ConfigReader& config, Parts& parts);

}  // namespace membudget
