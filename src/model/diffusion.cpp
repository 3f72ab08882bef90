#include "model/diffusion.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace membudget {
namespace {

constexpr Component kOther = Component::other;
constexpr Component kAttention = Component::attention;
constexpr std::size_t kMostStages = 16;
/// Width of the sinusoids of a timestep in diffusion transformers.
constexpr std::int64_t kTimeChannels = 256;

void conv(BlockBuilder& b, std::string_view name, std::int64_t out, std::int64_t in,
          std::int64_t kernel) {
    convolution(b, name, out, in, {kernel, kernel}, true, kOther);
}

/// `linear_1`, activation, `linear_2`: embeddings of a timestep, of pooled text, ...
void two_linears(BlockBuilder& b, std::string_view name, std::int64_t in, std::int64_t hidden,
                 std::int64_t out) {
    b.linear_weights(join(name, "linear_1"), in, hidden, true, Component::embedding);
    b.linear_weights(join(name, "linear_2"), hidden, out, true, Component::embedding);
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

namespace {

/// Sizes of a transformer over latent patches.
struct Transformer {
    std::int64_t width = 1, head_dim = 1;
};

Transformer read_transformer(ConfigReader& config) {
    Transformer t;
    t.head_dim = config.size("attention_head_dim", kLargestCount);
    t.width = t.head_dim * config.size("num_attention_heads", 1024);
    return t;
}

void qkv(BlockBuilder& b, std::string_view module, std::initializer_list<std::string_view> names,
         std::int64_t width) {
    for (const std::string_view name : names)
        b.linear_weights(join(module, name), width, width, true, kAttention);
}

void qk_norms(BlockBuilder& b, std::string_view module, std::initializer_list<std::string_view> names,
              std::int64_t head_dim, const Norm& norm = norms::rms) {
    for (const std::string_view name : names) b.norm_weights(join(module, name), head_dim, norm);
}

void feed_forward(BlockBuilder& b, std::string_view module, std::int64_t width, std::int64_t inner) {
    b.linear_weights(join(module, "net.0.proj"), width, inner, true, Component::mlp);
    b.linear_weights(join(module, "net.2"), inner, width, true, Component::mlp);
}

/// A block of FLUX (and Chroma, without modulation) that keeps text and image apart.
void double_block(BlockBuilder& b, const Transformer& t, bool modulated) {
    if (modulated) {
        b.linear_weights("norm1.linear", t.width, 6 * t.width, true, kOther);
        b.linear_weights("norm1_context.linear", t.width, 6 * t.width, true, kOther);
    }
    qk_norms(b, "attn", {"norm_q", "norm_k", "norm_added_q", "norm_added_k"}, t.head_dim);
    qkv(b, "attn", {"to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj",
                    "to_add_out"}, t.width);
    feed_forward(b, "ff", t.width, 4 * t.width);
    feed_forward(b, "ff_context", t.width, 4 * t.width);
}

/// A block that joins them.
void single_block(BlockBuilder& b, const Transformer& t, bool modulated) {
    if (modulated) b.linear_weights("norm.linear", t.width, 3 * t.width, true, kOther);
    b.linear_weights("proj_mlp", t.width, 4 * t.width, true, Component::mlp);
    b.linear_weights("proj_out", 5 * t.width, t.width, true, Component::mlp);
    qk_norms(b, "attn", {"norm_q", "norm_k"}, t.head_dim);
    qkv(b, "attn", {"to_q", "to_k", "to_v"}, t.width);
}

void add_flux_blocks(Parts& parts, ConfigReader& config, const Transformer& t, bool modulated) {
    parts.add("transformer_blocks.{}.", "double block",
              [&](BlockBuilder& b) { double_block(b, t, modulated); },
              config.count_or("num_layers", 0));
    parts.add("single_transformer_blocks.{}.", "single block",
              [&](BlockBuilder& b) { single_block(b, t, modulated); },
              config.count_or("num_single_layers", 0));
}

std::int64_t flux_output(ConfigReader& config) {
    const std::int64_t patch = config.size("patch_size", 1024);
    return patch * patch *
           config.size_or("out_channels", config.size("in_channels", kLargestCount), kLargestCount);
}

}  // namespace

void configure_flux(ConfigReader& config, Parts& parts) {
    const Transformer t = read_transformer(config);
    parts.add("", "embeddings", [&](BlockBuilder& b) {
        two_linears(b, "time_text_embed.timestep_embedder", kTimeChannels, t.width, t.width);
        if (config.flag("guidance_embeds"))
            two_linears(b, "time_text_embed.guidance_embedder", kTimeChannels, t.width, t.width);
        two_linears(b, "time_text_embed.text_embedder", config.size("pooled_projection_dim"), t.width,
                    t.width);
        b.linear_weights("context_embedder", config.size("joint_attention_dim"), t.width, true,
                         Component::embedding);
        b.linear_weights("x_embedder", config.size("in_channels", kLargestCount), t.width, true,
                         Component::embedding);
    });
    add_flux_blocks(parts, config, t, true);
    const std::int64_t out = flux_output(config);
    parts.add("", "output", [&](BlockBuilder& b) {
        b.linear_weights("norm_out.linear", t.width, 2 * t.width, true, kOther);
        b.linear_weights("proj_out", t.width, out, true, Component::head);
    });
}

void configure_chroma(ConfigReader& config, Parts& parts) {
    const Transformer t = read_transformer(config);
    const std::int64_t hidden = config.size("approximator_hidden_dim");
    const std::int64_t in = config.size("approximator_num_channels");
    const std::int64_t layers = config.size("approximator_layers", 1024);
    // One network makes the modulation of all blocks.
    parts.add("distilled_guidance_layer.", "modulation", [&](BlockBuilder& b) {
        b.linear_weights("in_proj", in, hidden, true, Component::embedding);
        for (std::int64_t i = 0; i < layers; ++i) {
            two_linears(b, fmt::format("layers.{}", i), hidden, hidden, hidden);
            b.norm_weights(fmt::format("norms.{}", i), hidden, norms::rms);
        }
        b.linear_weights("out_proj", hidden, t.width, true, Component::embedding);
    });
    parts.add("", "embeddings", [&](BlockBuilder& b) {
        b.linear_weights("context_embedder", config.size("joint_attention_dim"), t.width, true,
                         Component::embedding);
        b.linear_weights("x_embedder", config.size("in_channels", kLargestCount), t.width, true,
                         Component::embedding);
    });
    add_flux_blocks(parts, config, t, false);
    const std::int64_t out = flux_output(config);
    parts.add("", "output", [&](BlockBuilder& b) {
        b.linear_weights("proj_out", t.width, out, true, Component::head);
    });
}

void configure_sd3(ConfigReader& config, Parts& parts) {
    const Transformer t = read_transformer(config);
    const std::int64_t context = config.size("caption_projection_dim");
    const std::int64_t layers = config.size("num_layers", kLargestCount);
    const std::int64_t patch = config.size("patch_size", 1024);
    const std::int64_t in = config.size("in_channels", kLargestCount);
    const std::int64_t out = config.size_or("out_channels", in, kLargestCount);
    const bool normed = !config.text("qk_norm").empty();
    const std::vector<std::int64_t> dual = config.sizes("dual_attention_layers");
    parts.add("", "embeddings", [&](BlockBuilder& b) {
        convolution(b, "pos_embed.proj", t.width, in, {patch, patch}, true, Component::embedding);
        two_linears(b, "time_text_embed.timestep_embedder", kTimeChannels, t.width, t.width);
        two_linears(b, "time_text_embed.text_embedder", config.size("pooled_projection_dim"), t.width,
                    t.width);
        b.linear_weights("context_embedder", config.size("joint_attention_dim"), context, true,
                         Component::embedding);
    });
    const auto block = [&](BlockBuilder& b, bool twice, bool last) {
        b.linear_weights("norm1.linear", t.width, (twice ? 9 : 6) * t.width, true, kOther);
        // The last block drops the text, so it only normalises it.
        b.linear_weights("norm1_context.linear", t.width, (last ? 2 : 6) * t.width, true, kOther);
        if (normed)
            qk_norms(b, "attn", {"norm_q", "norm_k", "norm_added_q", "norm_added_k"}, t.head_dim);
        qkv(b, "attn", {"to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                        "add_v_proj"}, t.width);
        if (!last) qkv(b, "attn", {"to_add_out"}, t.width);
        if (twice) {
            if (normed) qk_norms(b, "attn2", {"norm_q", "norm_k"}, t.head_dim);
            qkv(b, "attn2", {"to_q", "to_k", "to_v", "to_out.0"}, t.width);
        }
        feed_forward(b, "ff", t.width, 4 * t.width);
        if (!last) feed_forward(b, "ff_context", t.width, 4 * t.width);
    };
    // Runs of equal blocks: those with a second attention, and the last one, differ.
    for (std::int64_t first = 0; first < layers;) {
        const auto twice = [&](std::int64_t i) {
            return std::find(dual.begin(), dual.end(), i) != dual.end();
        };
        const bool last = first + 1 == layers;
        std::int64_t end = first + 1;
        while (end + 1 < layers && twice(end) == twice(first)) ++end;
        parts.add("transformer_blocks.{}.", "joint block",
                  [&](BlockBuilder& b) { block(b, twice(first), last); }, end - first, first);
        first = end;
    }
    parts.add("", "output", [&](BlockBuilder& b) {
        b.linear_weights("norm_out.linear", t.width, 2 * t.width, true, kOther);
        b.linear_weights("proj_out", t.width, patch * patch * out, true, Component::head);
    });
}

void configure_hunyuan_dit(ConfigReader& config, Parts& parts) {
    const Transformer t = read_transformer(config);
    const std::int64_t layers = config.size("num_layers", kLargestCount);
    const std::int64_t text = config.size("cross_attention_dim");
    const std::int64_t t5 = config.size("cross_attention_dim_t5");
    const std::int64_t pooled = config.size("pooled_projection_dim");
    const std::int64_t length = config.size("text_len");
    const std::int64_t t5_length = config.size("text_len_t5");
    const std::int64_t patch = config.size("patch_size", 1024);
    const std::int64_t in = config.size("in_channels", kLargestCount);
    const std::int64_t out = config.flag("learn_sigma") ? 2 * in : in;
    const bool style = config.flag("use_style_cond_and_image_meta_size");
    const double ratio = config.number("mlp_ratio");
    if (!(ratio > 0 && ratio < 64)) {
        config.invalid("mlp_ratio", "expected a ratio above 0 and below 64");
        return;
    }
    const auto inner = static_cast<std::int64_t>(static_cast<double>(t.width) * ratio);
    parts.add("", "embeddings", [&](BlockBuilder& b) {
        b.parameter("text_embedding_padding", {length + t5_length, text}, Component::embedding);
        two_linears(b, "text_embedder", t5, 4 * t5, text);
        convolution(b, "pos_embed.proj", t.width, in, {patch, patch}, true, Component::embedding);
        two_linears(b, "time_extra_emb.timestep_embedder", kTimeChannels, t.width, t.width);
        b.parameter("time_extra_emb.pooler.positional_embedding", {t5_length + 1, t5},
                    Component::embedding);
        qkv(b, "time_extra_emb.pooler", {"k_proj", "q_proj", "v_proj"}, t5);
        b.linear_weights("time_extra_emb.pooler.c_proj", t5, pooled, true, kAttention);
        std::int64_t extra = pooled;
        if (style) {
            // A style, and six numbers of the image's size as sinusoids.
            constexpr std::int64_t kImageNumbers = 6;
            b.parameter("time_extra_emb.style_embedder.weight", {1, t.width}, Component::embedding);
            extra += t.width + kImageNumbers * kTimeChannels;
        }
        two_linears(b, "time_extra_emb.extra_embedder", extra, 4 * t.width, t.width);
    });
    const auto block = [&](BlockBuilder& b, bool skips) {
        b.linear_weights("norm1.linear", t.width, t.width, true, kOther);
        b.norm_weights("norm1.norm", t.width, norms::layer);
        b.norm_weights("norm2", t.width, norms::layer);
        b.norm_weights("norm3", t.width, norms::layer);
        for (const std::string_view module : {"attn1", "attn2"}) {
            const std::int64_t source = module == "attn1" ? t.width : text;
            qk_norms(b, module, {"norm_q", "norm_k"}, t.head_dim, norms::layer);
            qkv(b, module, {"to_q", "to_out.0"}, t.width);
            b.linear_weights(join(module, "to_k"), source, t.width, true, kAttention);
            b.linear_weights(join(module, "to_v"), source, t.width, true, kAttention);
        }
        feed_forward(b, "ff", t.width, inner);
        if (skips) {
            b.norm_weights("skip_norm", 2 * t.width, norms::layer);
            b.linear_weights("skip_linear", 2 * t.width, t.width, true, kOther);
        }
    };
    // The second half reads what the first half left, as in a UNet.
    const std::int64_t plain = std::min(layers, layers / 2 + 1);
    parts.add("blocks.{}.", "block", [&](BlockBuilder& b) { block(b, false); }, plain);
    parts.add("blocks.{}.", "block", [&](BlockBuilder& b) { block(b, true); }, layers - plain, plain);
    parts.add("", "output", [&](BlockBuilder& b) {
        b.linear_weights("norm_out.linear", t.width, 2 * t.width, true, kOther);
        b.linear_weights("proj_out", t.width, patch * patch * out, true, Component::head);
    });
}

}  // namespace membudget
