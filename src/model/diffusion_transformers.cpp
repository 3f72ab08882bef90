#include "model/diffusion.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/diffusion_parts.hpp"

namespace membudget {
namespace {

constexpr Component kOther = Component::other;
constexpr Component kAttention = Component::attention;
/// Width of the sinusoids of a timestep.
constexpr std::int64_t kTimeChannels = 256;

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
