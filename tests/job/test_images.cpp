// Models that read images: their shape comes from the config, and a job says only how many there are.

#include "catch.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "job_of.hpp"
#include "membudget/job.hpp"

using namespace membudget;

namespace {

std::string tiny(std::string_view family, std::string_view more = "") {
    return fmt::format(R"({{"family": "{}", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                           "image_size": 32, "patch_size": 8{}}})",
                       family, more);
}

std::string problem(std::string_view model, const Settings& training) {
    const Result<KeyTree> tree = parse_json(spec_text(model, training), "test.json");
    REQUIRE(tree.ok());
    const Result<Spec> spec = read_spec(*tree, "test.json");
    REQUIRE(spec.ok());
    const Result<Job> job = resolve(*spec, {});
    REQUIRE(!job.ok());
    const Diagnostic& first = job.errors().list().front();
    return first.pointer + ": " + first.message;
}

}  // namespace

TEST_CASE("patches and learned tokens follow from the config", "[job]") {
    const auto extents = [](std::string_view family) {
        return job_of_text(spec_text(tiny(family), {{"micro_batch_size", "3"}})).extents;
    };
    CHECK(extents("vit").images == 3);
    CHECK(extents("vit").patches == 3 * (16 + 1));
    CHECK(extents("deit").patches == 3 * (16 + 2));  // a class token and a distillation token
    CHECK(extents("dinov2").rows(Rows::patches) == 3 * (16 + 1));
}

TEST_CASE("an image model has no sequence length, and a text model no images", "[job]") {
    CHECK(problem(tiny("vit"), {{"micro_batch_size", "1"}, {"sequence_length", "8"}}) ==
          "/training/sequence_length: expected no length: the model reads images, not tokens; got 8");
    CHECK(problem(tiny("vit"), {{"micro_batch_size", "2"}, {"images", "2"}}) ==
          "/training/images: expected 1: each sample of an image model is one; got 2");
    CHECK(problem(tiny_llama(1), {{"micro_batch_size", "1"}, {"sequence_length", "8"}, {"images", "1"}}) ==
          "/training/images: expected no images, which the model does not read; got 1");
}

TEST_CASE("pairs have one image for each text, and a sequence holds the places of its images", "[job]") {
    const std::string vision = R"("vision_config": {"hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8})";
    const std::string text = R"("text_config": {"model_type": "llama", "vocab_size": 512, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}, )";
    const auto model = [&](const char* family) {
        return R"({"family": ")" + std::string(family) + "\", " + text + vision + "}";
    };
    CHECK(problem(model("clip"), {{"micro_batch_size", "2"}, {"sequence_length", "8"}, {"images", "2"}}) ==
          "/training/images: expected 1: the loss compares each text with one image; got 2");
    CHECK(problem(model("llava"), {{"micro_batch_size", "2"}, {"sequence_length", "31"}, {"images", "2"}}) ==
          "/training/sequence_length: expected at least the 32 tokens whose place 2 images take; got 31");
    const Job job =
        job_of_text(spec_text(model("llava"), {{"micro_batch_size", "2"}, {"sequence_length", "32"}, {"images", "2"}}));
    CHECK(job.extents.images == 4);
    CHECK(job.extents.patches == 4 * (16 + 1));
}

TEST_CASE("where the processor decides the size of images, the job says it", "[job]") {
    const std::string model = R"({"family": "qwen2_vl",
        "text_config": {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                        "num_attention_heads": 4, "num_key_value_heads": 2},
        "vision_config": {"embed_dim": 32, "hidden_size": 64, "depth": 1, "num_heads": 2, "patch_size": 8,
                          "mlp_ratio": 2}})";
    const auto with = [](std::string size) {
        return Settings{{"micro_batch_size", "2"}, {"sequence_length", "40"}, {"images", "3"}, {"image_size", std::move(size)}};
    };
    const Job job = job_of_text(spec_text(model, with("[32, 64]")));  // 2 x 4 tokens of 2 x 2 patches
    CHECK(job.extents.images == 6);
    CHECK(job.extents.patches == 6 * 32);
    CHECK(job.extents.rows(Rows::image_tokens) == 6 * 8);
    CHECK(job.model->image.height == 32);
    CHECK(job_of_text(spec_text(model, with("48"))).extents.patches == 6 * 36);
    CHECK(problem(model, {{"micro_batch_size", "2"}, {"sequence_length", "40"}}) ==
          "/training/image_size: expected the size in pixels of the images that the processor makes; got none");
    CHECK(problem(model, with("[30, 64]")) ==
          "/training/image_size: expected multiples of 16 pixels, the side of a token; got 30 x 64");
    CHECK(problem(model, with("64")) ==
          "/training/sequence_length: expected at least the 48 tokens whose place 3 images take; got 40");
    CHECK(problem(model, {{"micro_batch_size", "2"}, {"sequence_length", "40"}, {"images", "0"}, {"image_size", "32"}}) ==
          "/training/images: a batch without images is not modelled: the tower would not run");
    CHECK(problem(tiny("vit"), {{"micro_batch_size", "2"}, {"image_size", "64"}}) ==
          "/training/image_size: expected no size: the model takes images of 32 x 32 pixels");
    CHECK(problem(tiny_llama(1), {{"micro_batch_size", "1"}, {"sequence_length", "8"}, {"image_size", "64"}}) ==
          "/training/image_size: expected no size of images, which the model does not read");
}

TEST_CASE("an image is fitted into the best resolution and cut into tiles", "[job]") {
    const std::string model = R"({"family": "llava_next", "image_grid_pinpoints": [[64, 128], [128, 64], [128, 128]],
        "text_config": {"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
                        "num_hidden_layers": 2, "num_attention_heads": 4},
        "vision_config": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                          "num_attention_heads": 4, "image_size": 64, "patch_size": 8}})";
    const auto extents = [&](std::string size) {
        return job_of_text(spec_text(model, {{"micro_batch_size", "2"}, {"sequence_length", "400"},
                                             {"image_size", std::move(size)}})).extents;
    };
    // As the class counts its features [LlavaNextModel.pack_image_features].
    CHECK(extents("[100, 128]").tiles == 4 + 1);
    CHECK(extents("[100, 128]").images == 2 * 5);
    CHECK(extents("[100, 128]").image_tokens == 2 * (64 + 12 * 17));  // two rows of padding on either side
    CHECK(extents("[64, 120]").tiles == 2 + 1);
    CHECK(extents("[64, 120]").image_tokens == 2 * (64 + 8 * 17));  // less than two columns are none
    CHECK(extents("128").image_tokens == 2 * (64 + 16 * 17));
}

TEST_CASE("a parameter that no op uses is not trained", "[job]") {
    const auto trainable = [](std::string_view more) {
        const Job job = job_of_text(spec_text(tiny("dinov2", more), {{"micro_batch_size", "1"}}));
        const ParameterCounts counts = count_parameters(*job.model);
        return std::vector{counts.total.count(), counts.trainable.count()};
    };
    const std::vector<std::int64_t> with = trainable("");  // the mask token is of masked pretraining only
    CHECK(with[0] - with[1] == 64);
    const std::vector<std::int64_t> without = trainable(R"(, "use_mask_token": false)");
    CHECK(without[0] == without[1]);
    CHECK(without[0] == with[1]);
}

TEST_CASE("the problem's type decides the labels", "[job]") {
    const auto labels = [](std::string_view more) {
        return job_of_text(spec_text(tiny("vit", more), {{"micro_batch_size", "1"}})).model->inputs.back();
    };
    CHECK(labels(R"(, "num_labels": 5)").width == 1);
    CHECK(labels(R"(, "num_labels": 5, "problem_type": "multi_label_classification")").width == 5);
    CHECK(labels(R"(, "num_labels": 1)").dtype == &dtype::fp32);  // a regression
    CHECK(problem(tiny("vit", R"(, "problem_type": "other")"), {{"micro_batch_size", "1"}})
              .find("'single_label_classification'") != std::string::npos);
}
