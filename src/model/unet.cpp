#include "model/diffusion.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/diffusion_parts.hpp"

namespace membudget {
namespace {

constexpr Component kOther = Component::other;
constexpr Component kAttention = Component::attention;
constexpr std::size_t kMostStages = 16;

void conv(BlockBuilder& b, std::string_view name, std::int64_t out, std::int64_t in,
          std::int64_t kernel) {
    convolution(b, name, out, in, {kernel, kernel}, true, kOther);
}

/// A residual block of two convolutions; `time` is the width of the time embedding, 0 without one.
void resnet(BlockBuilder& b, const std::string& path, std::int64_t in, std::int64_t out,
            std::int64_t time) {
    b.norm_weights(join(path, "norm1"), in, norms::layer);
    conv(b, join(path, "conv1"), out, in, 3);
    if (time > 0) b.linear_weights(join(path, "time_emb_proj"), time, out, true, kOther);
    b.norm_weights(join(path, "norm2"), out, norms::layer);
    conv(b, join(path, "conv2"), out, out, 3);
    if (in != out) conv(b, join(path, "conv_shortcut"), out, in, 1);
}

/// Queries from `width`, keys and values from `source`, without biases but for the output's.
void cross_attention(BlockBuilder& b, const std::string& path, std::int64_t width,
                     std::int64_t source) {
    b.linear_weights(join(path, "to_q"), width, width, false, kAttention);
    b.linear_weights(join(path, "to_k"), source, width, false, kAttention);
    b.linear_weights(join(path, "to_v"), source, width, false, kAttention);
    b.linear_weights(join(path, "to_out.0"), width, width, true, kAttention);
}

/// What the blocks of one UNet share.
struct Unet {
    std::int64_t time = 1, context = 1;
    bool linear_projection = false;
    std::vector<std::int64_t> channels;      ///< by stage
    std::vector<std::int64_t> resnets;       ///< by stage
    std::vector<std::int64_t> transformers;  ///< depth of each attention, by stage
    std::vector<bool> down_attends;
};

/// `depth` transformer blocks between two projections.
void spatial_transformer(BlockBuilder& b, const std::string& path, const Unet& unet,
                         std::int64_t width, std::int64_t depth) {
    const auto projection = [&](std::string_view name) {
        if (unet.linear_projection)
            b.linear_weights(join(path, name), width, width, true, kAttention);
        else
            conv(b, join(path, name), width, width, 1);
    };
    b.norm_weights(join(path, "norm"), width, norms::layer);
    projection("proj_in");
    for (std::int64_t i = 0; i < depth; ++i) {
        const std::string block = fmt::format("{}.transformer_blocks.{}", path, i);
        b.norm_weights(join(block, "norm1"), width, norms::layer);
        cross_attention(b, join(block, "attn1"), width, width);
        b.norm_weights(join(block, "norm2"), width, norms::layer);
        cross_attention(b, join(block, "attn2"), width, unet.context);
        b.norm_weights(join(block, "norm3"), width, norms::layer);
        // GEGLU: value and gate in one projection of four times the width each.
        b.linear_weights(join(block, "ff.net.0.proj"), width, 8 * width, true, Component::mlp);
        b.linear_weights(join(block, "ff.net.2"), 4 * width, width, true, Component::mlp);
    }
    projection("proj_out");
}

/// A number for all stages, or a list with one for each.
std::vector<std::int64_t> per_stage(ConfigReader& config, std::string_view key, std::size_t stages) {
    const KeyTree* given = config.raw(key);
    if (given == nullptr || !given->is(KeyTree::Kind::array))
        return std::vector<std::int64_t>(stages, config.size(key, 1024));
    std::vector<std::int64_t> list = config.sizes(key);
    const bool bounded = std::all_of(list.begin(), list.end(),
                                     [](std::int64_t n) { return n <= 1024; });
    if (list.size() != stages || !bounded) {
        if (config.diagnostics().empty())
            config.invalid(key, fmt::format("expected {} integers of at most 1024", stages));
        list.assign(stages, 1);
    }
    return list;
}

/// For each stage whether it attends, by the names of its block types.
std::vector<bool> attending(ConfigReader& config, std::string_view key, std::string_view plain,
                            std::string_view cross, std::size_t stages) {
    const std::vector<std::string> types = config.texts(key);
    std::vector<bool> out(stages, false);
    if (types.size() != stages && config.diagnostics().empty())
        config.invalid(key, fmt::format("expected one block type per stage ({}); got {}", stages,
                                        types.size()));
    for (std::size_t i = 0; i < std::min(stages, types.size()); ++i) {
        if (types[i] != plain && types[i] != cross)
            config.unsupported(key, fmt::format("expected '{}' or '{}'; got '{}'", plain, cross,
                                                types[i]));
        out[i] = types[i] == cross;
    }
    return out;
}

std::vector<std::int64_t> read_stages(ConfigReader& config) {
    std::vector<std::int64_t> channels = config.sizes("block_out_channels");
    const bool zero = std::find(channels.begin(), channels.end(), 0) != channels.end();
    if (channels.empty() || channels.size() > kMostStages || zero) {
        if (config.diagnostics().empty())
            config.invalid("block_out_channels", "expected 1 to 16 positive integers");
        channels = {1};
    }
    return channels;
}

Unet read_unet(ConfigReader& config) {
    Unet unet;
    unet.channels = read_stages(config);
    const std::size_t stages = unet.channels.size();
    unet.time = 4 * unet.channels.front();
    unet.context = config.size("cross_attention_dim");
    unet.linear_projection = config.flag("use_linear_projection");
    unet.resnets = per_stage(config, "layers_per_block", stages);
    unet.transformers = per_stage(config, "transformer_layers_per_block", stages);
    unet.down_attends = attending(config, "down_block_types", "DownBlock2D", "CrossAttnDownBlock2D",
                                  stages);
    for (const std::string_view key : {"class_embed_type", "encoder_hid_dim", "encoder_hid_dim_type",
                                       "num_class_embeds", "time_cond_proj_dim"})
        if (config.raw(key) != nullptr)
            config.unsupported(key, "expected null, which is all that is modelled");
    return unet;
}

void add_time_embedding(Parts& parts, ConfigReader& config, const Unet& unet) {
    const std::string addition = config.text("addition_embed_type");
    if (!addition.empty() && addition != "text_time")
        config.unsupported("addition_embed_type", "expected 'text_time' or null; got '" + addition +
                                                      "'");
    const std::int64_t in = config.size("in_channels", kLargestCount);
    parts.add("", "input and time", [&](BlockBuilder& b) {
        conv(b, "conv_in", unet.channels.front(), in, 3);
        two_linears(b, "time_embedding", unet.channels.front(), unet.time, unet.time);
        if (addition == "text_time")
            two_linears(b, "add_embedding", config.size("projection_class_embeddings_input_dim"),
                        unet.time, unet.time);
    });
}

void add_down_blocks(Parts& parts, const Unet& unet) {
    std::int64_t in = unet.channels.front();
    for (std::size_t stage = 0; stage < unet.channels.size(); ++stage) {
        const std::int64_t out = unet.channels[stage];
        parts.add(fmt::format("down_blocks.{}.", stage), "down block", [&](BlockBuilder& b) {
            for (std::int64_t i = 0; i < unet.resnets[stage]; ++i) {
                resnet(b, fmt::format("resnets.{}", i), i == 0 ? in : out, out, unet.time);
                if (unet.down_attends[stage])
                    spatial_transformer(b, fmt::format("attentions.{}", i), unet, out,
                                        unet.transformers[stage]);
            }
            if (stage + 1 < unet.channels.size()) conv(b, "downsamplers.0.conv", out, out, 3);
        });
        in = out;
    }
}

void add_mid_block(Parts& parts, const Unet& unet) {
    const std::int64_t width = unet.channels.back();
    parts.add("mid_block.", "middle block", [&](BlockBuilder& b) {
        resnet(b, "resnets.0", width, width, unet.time);
        spatial_transformer(b, "attentions.0", unet, width, unet.transformers.back());
        resnet(b, "resnets.1", width, width, unet.time);
    });
}

}  // namespace

void configure_unet(ConfigReader& config, Parts& parts) {
    const Unet unet = read_unet(config);
    const std::size_t stages = unet.channels.size();
    const std::vector<bool> up_attends =
        attending(config, "up_block_types", "UpBlock2D", "CrossAttnUpBlock2D", stages);
    add_time_embedding(parts, config, unet);
    add_down_blocks(parts, unet);
    add_mid_block(parts, unet);
    std::int64_t previous = unet.channels.back();
    for (std::size_t up = 0; up < stages; ++up) {
        const std::size_t stage = stages - 1 - up;
        const std::int64_t out = unet.channels[stage];
        const std::int64_t below = unet.channels[stage > 0 ? stage - 1 : 0];
        // Each resnet also reads what the way down left at its resolution.
        const std::int64_t count = unet.resnets[stage] + 1;
        parts.add(fmt::format("up_blocks.{}.", up), "up block", [&](BlockBuilder& b) {
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t from = i == 0 ? previous : out;
                const std::int64_t skip = i + 1 == count ? below : out;
                resnet(b, fmt::format("resnets.{}", i), from + skip, out, unet.time);
                if (up_attends[up])
                    spatial_transformer(b, fmt::format("attentions.{}", i), unet, out,
                                        unet.transformers[stage]);
            }
            if (up + 1 < stages) conv(b, "upsamplers.0.conv", out, out, 3);
        });
        previous = out;
    }
    const std::int64_t out = config.size("out_channels", kLargestCount);
    parts.add("", "output", [&](BlockBuilder& b) {
        b.norm_weights("conv_norm_out", unet.channels.front(), norms::layer);
        conv(b, "conv_out", out, unet.channels.front(), 3);
    });
}

void configure_controlnet(ConfigReader& config, Parts& parts) {
    const Unet unet = read_unet(config);
    std::vector<std::int64_t> hints = config.sizes("conditioning_embedding_out_channels");
    if (hints.empty()) hints = {16};
    const std::int64_t image = config.size("conditioning_channels", kLargestCount);
    add_time_embedding(parts, config, unet);
    parts.add("controlnet_cond_embedding.", "condition", [&](BlockBuilder& b) {
        conv(b, "conv_in", hints.front(), image, 3);
        for (std::size_t i = 0; i + 1 < hints.size(); ++i) {
            conv(b, fmt::format("blocks.{}", 2 * i), hints[i], hints[i], 3);
            conv(b, fmt::format("blocks.{}", 2 * i + 1), hints[i + 1], hints[i], 3);
        }
        conv(b, "conv_out", unet.channels.front(), hints.back(), 3);
    });
    add_down_blocks(parts, unet);
    add_mid_block(parts, unet);
    // One convolution of 1 x 1 for everything that the UNet's way up reads.
    parts.add("", "outputs", [&](BlockBuilder& b) {
        std::int64_t index = 0;
        const auto output = [&](std::int64_t width) {
            conv(b, fmt::format("controlnet_down_blocks.{}", index++), width, width, 1);
        };
        output(unet.channels.front());
        for (std::size_t stage = 0; stage < unet.channels.size(); ++stage) {
            for (std::int64_t i = 0; i < unet.resnets[stage]; ++i) output(unet.channels[stage]);
            if (stage + 1 < unet.channels.size()) output(unet.channels[stage]);
        }
        conv(b, "controlnet_mid_block", unet.channels.back(), unet.channels.back(), 1);
    });
}

void configure_autoencoder_kl(ConfigReader& config, Parts& parts) {
    const std::vector<std::int64_t> channels = read_stages(config);
    const std::int64_t layers = config.size("layers_per_block", 1024);
    const std::int64_t latent = config.size("latent_channels", kLargestCount);
    const std::int64_t in = config.size("in_channels", kLargestCount);
    const std::int64_t out = config.size("out_channels", kLargestCount);
    const bool attends = config.flag("mid_block_add_attention");
    const std::size_t stages = channels.size();
    attending(config, "down_block_types", "DownEncoderBlock2D", "DownEncoderBlock2D", stages);
    attending(config, "up_block_types", "UpDecoderBlock2D", "UpDecoderBlock2D", stages);
    const auto middle = [&](BlockBuilder& b) {
        const std::int64_t width = channels.back();
        resnet(b, "mid_block.resnets.0", width, width, 0);
        if (attends) {
            b.norm_weights("mid_block.attentions.0.group_norm", width, norms::layer);
            for (const std::string_view name : {"to_q", "to_k", "to_v", "to_out.0"})
                b.linear_weights(join("mid_block.attentions.0", name), width, width, true,
                                 kAttention);
        }
        resnet(b, "mid_block.resnets.1", width, width, 0);
    };
    parts.add("encoder.", "encoder", [&](BlockBuilder& b) {
        conv(b, "conv_in", channels.front(), in, 3);
        std::int64_t previous = channels.front();
        for (std::size_t stage = 0; stage < stages; ++stage) {
            for (std::int64_t i = 0; i < layers; ++i)
                resnet(b, fmt::format("down_blocks.{}.resnets.{}", stage, i),
                       i == 0 ? previous : channels[stage], channels[stage], 0);
            if (stage + 1 < stages)
                conv(b, fmt::format("down_blocks.{}.downsamplers.0.conv", stage), channels[stage],
                     channels[stage], 3);
            previous = channels[stage];
        }
        middle(b);
        b.norm_weights("conv_norm_out", channels.back(), norms::layer);
        conv(b, "conv_out", 2 * latent, channels.back(), 3);  // mean and variance
    });
    parts.add("decoder.", "decoder", [&](BlockBuilder& b) {
        conv(b, "conv_in", channels.back(), latent, 3);
        middle(b);
        std::int64_t previous = channels.back();
        for (std::size_t up = 0; up < stages; ++up) {
            const std::int64_t width = channels[stages - 1 - up];
            for (std::int64_t i = 0; i < layers + 1; ++i)
                resnet(b, fmt::format("up_blocks.{}.resnets.{}", up, i), i == 0 ? previous : width,
                       width, 0);
            if (up + 1 < stages)
                conv(b, fmt::format("up_blocks.{}.upsamplers.0.conv", up), width, width, 3);
            previous = width;
        }
        b.norm_weights("conv_norm_out", channels.front(), norms::layer);
        conv(b, "conv_out", out, channels.front(), 3);
    });
    parts.add("", "quantisation", [&](BlockBuilder& b) {
        if (config.flag("use_quant_conv")) conv(b, "quant_conv", 2 * latent, 2 * latent, 1);
        if (config.flag("use_post_quant_conv")) conv(b, "post_quant_conv", latent, latent, 1);
    });
}

}  // namespace membudget
