/// Published weight indexes beside the configs of their models: one line each. They are read from
/// the folder that MEMBUDGET_CORPUS names.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "build.hpp"

using namespace membudget;

namespace {

struct Pair {
    std::string_view index;
    std::string_view config;  ///< its path, or its text
    bool exact = false;  ///< the total is parameters x bytes, without any extra tensor
};

// Those of the corpus whose config is known to be the same model's.
constexpr Pair kPairs[] = {
    {"configs/index/gemma-2b.index.json", "configs/google--gemma-2b.mirror.json", true},
    {"configs/index/Llama-3.2-3B.index.json", "configs/meta-llama--Llama-3.2-3B.mirror.json", true},
    {"configs/index/llama-7b-hf.bin.index.json", "configs/nuxwork--llama-7b-hf.json"},
    {"configs/index/internlm-20b.bin.index.json", "configs/internlm--internlm-20b.json", true},
    {"configs/index/bloom.bin.index.json", "configs/bigscience--bloom.json", true},
    {"configs/index/falcon-180B-chat.index.json", "configs/tiiuae--falcon-180B-chat.json", true},
    {"configs/index/Qwen-72B.index.json", "configs/Qwen--Qwen-72B.json", true},
    {"configs/index/RedPajama-INCITE-7B-Base.bin.index.json",
     "configs/togethercomputer--RedPajama-INCITE-7B-Base.json"},
    {"configs/index/mpt-7b.bin.index.json", "configs/mosaicml--mpt-7b.llm-foundry.json", true},
    {"configs/index/phi-2.index.json", "configs/microsoft--phi-2.phi-msft.json", true},
    {"configs/index/InternVL2-8B.index.json", "configs/OpenGVLab--InternVL2-8B.json", true},
    {"configs/index/dolphin-mixtral-8x7b.bin.index.json",
     "configs/cognitivecomputations--dolphin-2.5-mixtral-8x7b.json", true},
    {"configs/index/FLUX.1-schnell.transformer.index.json",
     "configs/black-forest-labs--FLUX.1-schnell.transformer.json", true},
    {"configs/index/Chroma.transformer.index.json",
     "configs/lodestones--Chroma.transformer.json", true},
    {"configs/index/cogito-qwen-14B.index.json",  // Qwen2.5-14B with its unused rows of the vocabulary cut off
     R"({"model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 13824,
         "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
         "vocab_size": 151665, "tie_word_embeddings": false})", true},
    {"configs/index/Reflection-70B.index.json",  // Llama-3.1-70B with 6 more tokens, in fp32
     R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
         "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
         "vocab_size": 128262, "tie_word_embeddings": false})", true},
    {"configs/index/WizardLM-2-8x22B.index.json",  // Mixtral-8x22B
     R"({"model_type": "mixtral", "hidden_size": 6144, "intermediate_size": 16384,
         "num_hidden_layers": 56, "num_attention_heads": 48, "num_key_value_heads": 8,
         "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2})", true},
};

}  // namespace

TEST_CASE("indexes of published weights against their configs") {
    const char* corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) {
        std::puts("skipped: MEMBUDGET_CORPUS is not set");
        return;
    }
    const std::string folder = std::string(corpus) + "/";
    for (const Pair& pair : kPairs) {
        INFO(pair.index);
        const auto weights = read_weights(folder + std::string(pair.index));
        const auto text = pair.config.starts_with('{')
                              ? Result<std::string>(std::string(pair.config))
                              : read_text(folder + std::string(pair.config));
        REQUIRE(weights.ok());
        REQUIRE(text.ok());
        const auto model = build_model(tree_of(*text));
        if (!model.ok()) {
            std::printf("%s: no model: %s\n", pair.index.data(), errors_of(model.errors()).c_str());
            CHECK_FALSE(model.errors().any_invalid());
            continue;
        }
        const WeightCheck check = check_weights(*model, *weights);
        std::printf("%s: %lld of %zu tensors are parameters of %lld, %zu differ\n",
                    pair.index.data(), static_cast<long long>(check.matched),
                    weights->tensors.size(), static_cast<long long>(check.parameters.count()),
                    check.differences.size());
        for (std::size_t i = 0; i < check.differences.size() && i < 5; ++i)
            std::printf("    %s: %s (%s)\n", check.differences[i].tensor.c_str(),
                        check.differences[i].what.c_str(), check.differences[i].reason.c_str());
        CHECK(check.ok());
        if (pair.exact) CHECK(check.differences.empty());
    }
}
