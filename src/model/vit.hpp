#pragma once

/// One builder for the vision transformers of the ViT shape: patches by a convolution, learned class
/// tokens and positions, layers that normalise before each sublayer, a classifier or a pooler.

#include <cstdint>
#include <optional>
#include <string_view>

#include "membudget/model.hpp"
#include "model/blocks.hpp"
#include "model/config.hpp"

namespace membudget {

/// How a vision transformer's modules are named and which parts it has.
struct VitPlan {
    std::string_view base = "vit";           ///< name of the base model in the classes with a head
    std::string_view layers = "layers";
    std::string_view first_norm = "layernorm_before", second_norm = "layernorm_after";
    std::int64_t hidden = 1, layer_count = 1, heads = 1, width = 1;
    std::int64_t channels = 3, image = 1, patch = 1;
    bool distilled = false;                  ///< DeiT: a second learned token
    std::optional<std::int64_t> registers;   ///< tokens beside the class token, without positions; a class
                                             ///< that knows them has their tensor even if there are none
    bool mask_token = false;                 ///< a parameter that only masked pretraining uses
    bool gated = false;                      ///< `gate_proj`, `up_proj`, `down_proj`
    bool layer_scale = false;                ///< a learned factor per channel after each sublayer
    bool softmax_in_dtype = false;           ///< the eager softmax keeps the type of the scores
    Act act = Act::gelu;
    double dropout = 0, attention_dropout = 0;
    double drop_path = 0;                    ///< stochastic depth: probability that a branch is dropped
    bool pooler = false;                     ///< of the bare model
    std::int64_t pooled = 1;
    Act pooler_act = Act::tanh;
    std::string_view convolution = "embeddings.patch_embeddings.projection", final_norm = "layernorm";
    std::string_view up = "fc1", down = "fc2";  ///< of the network that is not gated
    Act gated_act = Act::silu;
    bool q_bias = true, k_bias = true, v_bias = true, o_bias = true, mlp_bias = true;
    bool rotates = false;                    ///< DINOv3: no learned positions, queries and keys of patches rotate
    bool joins_mean = false;                 ///< the classifier reads class token and mean of patches

    [[nodiscard]] std::int64_t patches() const {
        const std::int64_t side = image / patch > 0 ? image / patch : 1;
        return side * side;
    }
    /// Learned tokens that have positions.
    [[nodiscard]] std::int64_t tokens() const { return distilled ? 2 : 1; }
    /// Rows of an image.
    [[nodiscard]] std::int64_t rows() const { return patches() + tokens() + registers.value_or(0); }
};

using ConfigureVit = void (*)(ConfigReader& config, VitPlan& plan);
[[nodiscard]] Result<Model> vit_family(const Family& family, const KeyTree& config,
                                       std::string_view architecture, ConfigureVit configure);
template <ConfigureVit Configure>
Result<Model> build_vit_family(const Family& family, const KeyTree& config,
                               std::string_view architecture) {
    return vit_family(family, config, architecture, Configure);
}

void configure_vit(ConfigReader& config, VitPlan& plan);
void configure_deit(ConfigReader& config, VitPlan& plan);
void configure_dinov2(ConfigReader& config, VitPlan& plan);
void configure_dinov2_with_registers(ConfigReader& config, VitPlan& plan);
void configure_dinov3_vit(ConfigReader& config, VitPlan& plan);

}  // namespace membudget
