/// Parameter counts from configs written here: dimensions are facts, published with the models.

#include "build.hpp"

using namespace membudget;
using Shape = std::vector<std::int64_t>;

namespace {

struct Case {
    const char* name;
    const char* config;
    const char* architecture;
    std::int64_t total;
    std::int64_t untied;
};

constexpr Case kCases[] = {
    {"Llama-3.1-8B",
     R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
         "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false})",
     "", 8030261248, 8030261248},
    {"Llama-3.2-1B, tied",
     R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": true})",
     "", 1235814400, 1498482688},
    {"Mistral-7B-v0.1",
     R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "vocab_size": 32000, "sliding_window": 4096})",
     "", 7241732096, 7241732096},
    {"Qwen3-8B",
     R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
         "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128, "vocab_size": 151936})",
     "", 8190735360, 8190735360},
    {"Qwen2.5-7B: q, k and v have biases without a key",
     R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
         "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
         "vocab_size": 152064})",
     "", 7615616512, 7615616512},
    {"Gemma-7B: heads of 256 in a hidden size of 3072",
     R"({"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576,
         "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
         "head_dim": 256, "vocab_size": 256000})",
     "", 8537680896, 8537680896 + 256000LL * 3072},
    {"MiniCPM3-4B, class defaults", R"({"model_type": "minicpm3"})", "", 4073875968, 4073875968 + 73448LL * 2560},
    {"MiMo-V2-Flash, class defaults: other heads and a sink in layers with a window",
     R"({"model_type": "mimo_v2_flash"})", "", 308778768832, 308778768832},
    {"DeepSeek-V4-Flash: layers that compress in two ways, or not",
     R"({"model_type": "deepseek_v4", "num_hidden_layers": 43,
         "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4,
                             128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0]})",
     "", 284332230231, 284332230231},
    {"Step 3.7, class defaults", R"({"model_type": "step3p7", "text_config": {}})", "", 197824847872, 197824847872},
    {"MiniMax-M3, class defaults", R"({"model_type": "minimax_m3_vl"})", "", 448052008448, 448052008448},
    {"LFM2, class defaults: a width that is rounded up", R"({"model_type": "lfm2"})", "", 2705497600,
     2705497600 + 65536LL * 2560},
    {"GPT-2, class defaults", R"({"model_type": "gpt2"})", "", 124439808, 163037184},
    {"Pythia-1B",
     R"({"model_type": "gpt_neox", "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 16, "num_attention_heads": 8, "vocab_size": 50304})",
     "", 1011781632, 1011781632},
    {"OPT-1.3B",
     R"({"model_type": "opt", "hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24,
         "num_attention_heads": 32, "word_embed_proj_dim": 2048})",
     "", 1315758080, 1315758080 + 50272LL * 2048},
    {"OPT-350M: projections around, no final norm",
     R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
         "num_attention_heads": 16, "word_embed_proj_dim": 512, "do_layer_norm_before": false})",
     "", 331196416, 331196416 + 50272LL * 512},
    {"BERT-base as its config names it",
     R"({"model_type": "bert", "architectures": ["BertForMaskedLM"]})", "", 109514298, 132985716},
    {"BERT-base, bare with pooler", R"({"model_type": "bert"})", "BertModel", 109482240, 109482240},
    {"BERT-base with both heads of its pretraining", R"({"model_type": "bert"})",
     "BertForPreTraining", 110106428, 133577846},
    {"Mixtral-8x7B", R"({"model_type": "mixtral"})", "", 46702792704, 46702792704},
    {"DeepSeek-V3", R"({"model_type": "deepseek_v3"})", "", 671026404352, 671026404352},
};

}  // namespace

TEST_CASE("parameter counts of published models are exact") {
    for (const Case& one : kCases) {
        INFO(one.name);
        const ParameterCounts counts = count_parameters(model_of(one.config, one.architecture));
        CHECK(counts.total.count() == one.total);
        CHECK(counts.untied.count() == one.untied);
        CHECK(counts.trainable == counts.total);
    }
}

TEST_CASE("a model small enough to count by hand") {
    const Model model = model_of(
        R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "vocab_size": 10,
            "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1})");
    // embedding 80, per layer q 64 + k 32 + v 32 + o 64 + mlp 3 * 128 + norms 16, norm 8, head 80
    CHECK(count_parameters(model).total.count() == 80 + 3 * 592 + 8 + 80);
    REQUIRE(find_parameter(model, "model.layers.{}.self_attn.k_proj.weight") != nullptr);
    CHECK(find_parameter(model, "model.layers.{}.self_attn.k_proj.weight")->shape == Shape{4, 8});
    CHECK(find_parameter(model, "lm_head.weight")->tied_to.empty());
    CHECK(model.facts.layers == 3);
    CHECK(model.facts.head_dim == 4);
}

TEST_CASE("active parameters leave out the experts that a token is not routed to") {
    const ParameterCounts counts = count_parameters(model_of(
        R"({"model_type": "mixtral", "hidden_size": 8, "intermediate_size": 16, "vocab_size": 10,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
            "num_local_experts": 4, "num_experts_per_tok": 1})"));
    const std::int64_t one_expert = 3 * 8 * 16;
    CHECK(counts.total.count() - counts.active.count() == 2 * 3 * one_expert);
}

TEST_CASE("a key that is absent takes the class's default, null is derived") {
    const auto kv_heads = [](const char* rest) {
        return model_of(std::string(R"({"model_type": "mistral")") + rest + "}").facts.kv_heads;
    };
    CHECK(kv_heads("") == 8);
    CHECK(kv_heads(R"(, "num_key_value_heads": null)") == 32);
    CHECK(kv_heads(R"(, "num_key_value_heads": 4)") == 4);
}

TEST_CASE("defaults that decided a size are noted") {
    const Model model = model_of(R"({"model_type": "qwen3", "hidden_size": 4096})");
    const auto noted = [&](const std::string& text) {
        return std::find(model.notes.begin(), model.notes.end(), text) != model.notes.end();
    };
    CHECK(noted("head_dim = 128: absent from the config, the default of qwen3"));
    CHECK_FALSE(noted("hidden_size = 4096: absent from the config, the default of qwen3"));
}

TEST_CASE("synonyms of a key are read, the canonical name first") {
    CHECK(model_of(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4})").facts.hidden_size == 64);
    CHECK(model_of(R"({"model_type": "gpt2", "n_embd": 64, "hidden_size": 32, "n_head": 4})")
              .facts.hidden_size == 32);
}

TEST_CASE("Qwen 1 gives the width of gate and up together") {
    const Model model = model_of(R"({"model_type": "qwen", "intermediate_size": 22016})");
    CHECK(find_parameter(model, "transformer.h.{}.mlp.w1.weight")->shape == Shape{11008, 4096});
}

TEST_CASE("class names decide the head") {
    const char* config = R"({"model_type": "llama", "id2label": {"0": "a", "1": "b", "2": "c"}})";
    CHECK(find_parameter(model_of(config), "model.norm.weight") != nullptr);
    const Model bare = model_of(config, "LlamaModel");
    CHECK(find_parameter(bare, "norm.weight") != nullptr);
    CHECK(find_parameter(bare, "lm_head.weight") == nullptr);
    const Model classifier = model_of(config, "LlamaForSequenceClassification");
    CHECK(find_parameter(classifier, "score.weight")->shape == Shape{3, 4096});
}

TEST_CASE("every family builds from its class defaults, in each of its classes") {
    for (const Family& family : families()) {
        INFO(family.name);
        const KeyTree config = defaults_of(family);
        std::string_view classes = family.architectures;
        while (!classes.empty()) {
            const std::string_view architecture = classes.substr(0, classes.find(' '));
            classes.remove_prefix(std::min(architecture.size() + 1, classes.size()));
            const auto model = build_model(config, architecture);
            INFO(architecture);
            INFO((model.ok() ? std::string() : errors_of(model.errors())));
            REQUIRE(model.ok());
            CHECK(model->architecture == architecture);
            CHECK(model->family == family.name);
            CHECK_FALSE(model->source.empty());
            CHECK(count_parameters(*model).total.count() > 0);
        }
    }
}
