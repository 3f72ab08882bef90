// Models of several chains of blocks, and tensors with gradients that several blocks read: encoder-decoders,
// position biases, embeddings of relative positions, shared layers.

#include "catch.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job_of.hpp"
#include "membudget/ledger.hpp"

using namespace membudget;

namespace {

std::string layers(std::string_view keys, int count) {
    std::string text(keys);
    for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#'))
        text.replace(at, 1, std::to_string(count));
    return "{" + text + "}";
}

constexpr std::string_view kT5 = R"("family": "t5", "vocab_size": 512, "d_model": 64, "d_kv": 16, "d_ff": 128,
    "num_layers": #, "num_heads": 4, "dropout_rate": 0.0)";
constexpr std::string_view kBart = R"("family": "bart", "vocab_size": 512, "d_model": 64, "encoder_layers": #,
    "decoder_layers": #, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "max_position_embeddings": 128)";
constexpr std::string_view kWhisper = R"("family": "whisper", "vocab_size": 512, "d_model": 64, "encoder_layers": #,
    "decoder_layers": #, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "max_source_positions": 48, "max_target_positions": 64, "num_mel_bins": 8)";
constexpr std::string_view kDeberta = R"("family": "deberta-v2", "vocab_size": 512, "hidden_size": 64,
    "num_hidden_layers": #, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64,
    "relative_attention": true, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm")";

constexpr std::string_view kClip = R"("family": "clip", "projection_dim": 24,
    "text_config": {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": #,
        "num_attention_heads": 4, "max_position_embeddings": 128},
    "vision_config": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": #,
        "num_attention_heads": 4, "image_size": 32, "patch_size": 8})";
constexpr std::string_view kSiglip = R"("family": "siglip",
    "text_config": {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": #,
        "num_attention_heads": 4, "max_position_embeddings": 128},
    "vision_config": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": #,
        "num_attention_heads": 4, "image_size": 32, "patch_size": 8})";
constexpr std::string_view kLlava = R"("family": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 176,
        "num_hidden_layers": #, "num_attention_heads": 4, "num_key_value_heads": 2},
    "vision_config": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": #,
        "num_attention_heads": 4, "image_size": 32, "patch_size": 8})";

constexpr std::string_view kModels[] = {kT5, kBart, kWhisper, kDeberta, kClip, kSiglip, kLlava};

/// The same model with a section for each copy of a block: nothing is taken to repeat.
Job without_repetition(const Job& job) {
    Model model = *job.model;
    std::vector<Section> sections;
    for (const Section& section : model.sections)
        for (std::int64_t copy = 0; copy < section.count; ++copy) {
            Section one = section;
            one.count = 1;
            one.first_index += copy * static_cast<std::int64_t>(section.pattern.size());
            sections.push_back(std::move(one));
        }
    model.sections = std::move(sections);
    Job out = job;
    out.model = std::make_shared<const Model>(std::move(model));
    return out;
}

std::size_t nodes(const StepNode& node) {
    std::size_t sum = 1;
    for (const StepNode& child : node.children) sum += nodes(child);
    return sum;
}

constexpr const char* kCheckpointing[] = {R"({"mode": "none"})", R"({"mode": "full", "reentrant": false})",
                                          R"({"mode": "full", "reentrant": true})"};

}  // namespace

TEST_CASE("copies of blocks that read tensors with gradients fold without loss", "[step]") {
    for (const std::string_view keys : kModels)
        for (const char* checkpointing : kCheckpointing)
            for (const char* precision : {"bf16", "bf16-autocast"}) {
                INFO(keys << checkpointing << precision);
                const Job job = job_of(layers(keys, 5), {{"activation_checkpointing", checkpointing},
                                                         {"precision", precision},
                                                         {"attention", "eager"},
                                                         {"gradient_accumulation_steps", "2"}});
                const Step folded = simulate_step(job);
                const Step whole = simulate_step(without_repetition(job));
                CHECK(folded.profile.peak == whole.profile.peak);
                CHECK(folded.profile.at_peak == whole.profile.at_peak);
                CHECK(folded.profile.max == whole.profile.max);
                CHECK(folded.profile.total == whole.profile.total);
            }
}

TEST_CASE("the cost of a step of two chains does not depend on their depth", "[step]") {
    for (const std::string_view keys : kModels) {
        INFO(keys);
        const auto size = [&](int count) {
            return nodes(simulate_step(job_of(layers(keys, count), {{"attention", "eager"}})).root);
        };
        CHECK(size(8) == size(80));
    }
}

TEST_CASE("no term of a model of two chains is negative, and none stays that should go", "[step]") {
    for (const std::string_view keys : kModels)
        for (const char* checkpointing : kCheckpointing)
            for (const char* keep : {"true", "false"}) {
                INFO(keys << checkpointing << keep);
                const Job job = job_of(layers(keys, 3), {{"activation_checkpointing", checkpointing},
                                                         {"attention", "eager"},
                                                         {"keep_logits", keep},
                                                         {"gradient_accumulation_steps", "3"}});
                const Step step = simulate_step(job);
                std::vector<std::int64_t> terms(step.terms.size(), 0);
                bool negative = false;
                unroll(step.root, [&](const Event& event, const StepNode&, std::span<const std::int64_t>) {
                    terms[event.term] += event.bytes * event.count;
                    negative = negative || terms[event.term] < 0;
                });
                CHECK_FALSE(negative);
                for (std::size_t i = 0; i < terms.size(); ++i) {
                    const std::string& path = step.terms.path(static_cast<TermId>(i));
                    INFO(path);
                    const bool stays = path == "parameters" || path.starts_with("optimizer_states") ||
                                       path == "activations/inputs" || path == "allocator/rounding";
                    if (!stays) CHECK(terms[i] == 0);
                }
                check_books(job);
            }
}

TEST_CASE("source and target lengths count apart", "[step]") {
    const auto peak = [](const char* source, const char* target) {
        return simulate_step(job_of(layers(kT5, 2), {{"sequence_length", source}, {"target_length", target}}))
            .profile.peak;
    };
    CHECK(peak("64", "32") > peak("32", "32"));
    CHECK(peak("32", "64") > peak("32", "32"));
    // The target's logits weigh more than the source.
    CHECK(peak("32", "64") > peak("64", "32"));
}

TEST_CASE("a frozen tower keeps nothing for backward", "[step]") {
    const auto kept = [](int layers_of_tower, bool frozen) {
        std::string model = layers(kLlava, 2);
        const std::string count = "\"num_hidden_layers\": ";
        model.replace(model.rfind(count), count.size() + 1, count + std::to_string(layers_of_tower));
        Settings training{{"optimizer", "sgd"}, {"precision", "fp32"}};
        if (frozen) training.emplace_back("freeze", R"(["model.vision_tower"])");
        const Step step = simulate_step(job_of(model, training));
        std::int64_t most = 0;
        for (std::size_t i = 0; i < step.terms.size(); ++i)
            if (step.terms.path(static_cast<TermId>(i)).starts_with("activations")) most += step.profile.max[i];
        return most;
    };
    CHECK(kept(9, true) == kept(3, true));
    CHECK(kept(9, false) > kept(3, false));
}

TEST_CASE("no gradient reaches the layers of a tower behind the chosen one", "[step]") {
    const auto trained = [](const std::string& layer) {
        std::string model = layers(kLlava, 3);
        model.insert(1, "\"vision_feature_layer\": " + layer + ", ");
        const Job job = job_of(model, {{"precision", "fp32"}});
        const Step step = simulate_step(job);
        std::int64_t most = 0;
        for (std::size_t i = 0; i < step.terms.size(); ++i)
            if (step.terms.path(static_cast<TermId>(i)) == "gradients") most = step.profile.max[i];
        const std::int64_t counted = count_parameters(*job.model).trainable.count();
        CHECK(most == 4 * counted);
        return counted;
    };
    const std::int64_t each = 4 * (48 * 48 + 48) + 2 * 48 * 96 + 96 + 48 + 4 * 48;
    CHECK(trained("-1") - trained("-2") == each);
    CHECK(trained("-1") - trained("1") == 2 * each);
}

TEST_CASE("layers that share their parameters have one gradient", "[step]") {
    const auto gradients = [](int count) {
        const Job job = job_of(
            layers(R"("family": "albert", "vocab_size": 512, "hidden_size": 64, "embedding_size": 16,
                "num_hidden_layers": #, "num_attention_heads": 4, "intermediate_size": 128,
                "max_position_embeddings": 128)", count), {{"precision", "fp32"}});
        const Step step = simulate_step(job);
        std::int64_t most = 0;
        for (std::size_t i = 0; i < step.terms.size(); ++i)
            if (step.terms.path(static_cast<TermId>(i)) == "gradients") most = step.profile.max[i];
        CHECK(most == 4 * count_parameters(*job.model).trainable.count());
        return most;
    };
    CHECK(gradients(1) == gradients(6));
}
