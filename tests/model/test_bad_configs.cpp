/// Configs that are wrong, each with its exact message.

#include "build.hpp"

using namespace membudget;

TEST_CASE("what no config is") {
    CHECK(failure_of("[]") == ": expected an object with the keys of a model config; got " +
                                  tree_of("[]").describe());
    CHECK(failure_of("{}") == ": expected one of the keys 'model_type', 'architectures' or "
                              "'_class_name'; got none of them");
    CHECK(failure_of(R"({"model_type": 3})") ==
          "/model_type: expected the name of a model family; got " +
              KeyTree(std::int64_t{3}).describe());
}

TEST_CASE("unknown families and classes are unsupported, with a suggestion") {
    const auto model = build_model(tree_of(R"({"model_type": "llamma"})"));
    REQUIRE_FALSE(model.ok());
    CHECK_FALSE(model.errors().any_invalid());
    CHECK(errors_of(model.errors()) ==
          "/model_type: expected a known model family; got " + KeyTree("llamma").describe() +
              " (did you mean 'llama'?)");
    CHECK(failure_of(R"({"architectures": ["NobodyForCausalLM"]})") ==
          "/architectures/0: expected a known class; got 'NobodyForCausalLM'");
    CHECK(failure_of(R"({"model_type": "mixtral", "architectures": ["MixtralForTokens"]})") ==
          "/architectures/0: expected a class of 'mixtral' (MixtralForCausalLM, MixtralModel, "
          "MixtralForSequenceClassification); got 'MixtralForTokens'");
}

TEST_CASE("wrong values are reported together, each at its key") {
    const std::string text =
        R"({"model_type": "llama", "hidden_size": "4096", "num_hidden_layers": 0,
            "num_attention_heads": -1, "vocab_size": 1.5, "hidden_act": "sillu",
            "tie_word_embeddings": "yes", "attention_dropout": 2})";
    const auto got = [&](const char* key) { return tree_of(text).find(key)->describe(); };
    CHECK(failure_of(text) ==
          "/hidden_size: expected a positive integer; got " + got("hidden_size") +
              "\n/vocab_size: expected a positive integer; got " + got("vocab_size") +
              "\n/num_hidden_layers: expected a positive integer; got " + got("num_hidden_layers") +
              "\n/tie_word_embeddings: expected true or false; got " + got("tie_word_embeddings") +
              "\n/num_attention_heads: expected a positive integer; got " +
              got("num_attention_heads") +
              "\n/attention_dropout: expected a probability from 0 to 1; got " +
              got("attention_dropout") +
              "\n/hidden_act: expected a known activation function; got " + got("hidden_act") +
              " (did you mean 'silu'?)");
}

TEST_CASE("a required key that is null says so") {
    CHECK(failure_of(R"({"model_type": "llama", "hidden_size": null})") ==
          "/hidden_size: expected a positive integer; got null");
}

TEST_CASE("a required key without a default must be there") {
    CHECK(failure_of(R"({"_class_name": "HunyuanDiT2DModel", "in_channels": 4})") ==
          ": expected the key 'patch_size', for which HunyuanDiT2DModel has no default; got none");
}

TEST_CASE("heads must divide") {
    CHECK(failure_of(R"({"model_type": "llama", "num_key_value_heads": 5})") ==
          "/num_attention_heads: expected a multiple of num_key_value_heads (5); got 32");
    CHECK(failure_of(R"({"model_type": "gpt2", "n_embd": 100})") ==
          "/n_embd: expected a multiple of num_attention_heads (12); got 100");
}

TEST_CASE("absurd sizes are refused before they overflow") {
    CHECK(failure_of(R"({"model_type": "llama", "hidden_size": 16777217})") ==
          "/hidden_size: expected at most 16777216; got 16777217");
    CHECK(failure_of(R"({"model_type": "llama", "num_hidden_layers": 100000})") ==
          "/num_hidden_layers: expected at most 65536; got 100000");
    CHECK(failure_of(R"({"model_type": "llama", "hidden_size": 16777216, "head_dim": 16777216,
                         "num_attention_heads": 65536, "num_key_value_heads": 65536,
                         "intermediate_size": 16777216, "num_hidden_layers": 65536})") ==
          ": expected a model of at most 281,474,976,710,656 parameters; got more");
}

TEST_CASE("lists per layer have the length of the model") {
    CHECK(failure_of(R"({"model_type": "gemma2", "num_hidden_layers": 2,
                         "layer_types": ["full_attention"]})") ==
          "/layer_types: expected one entry per layer (2); got 1");
    CHECK(failure_of(R"({"model_type": "gemma2", "num_hidden_layers": 1,
                         "layer_types": ["round_attention"]})") ==
          "/layer_types: expected 'full_attention' or 'sliding_attention'; got 'round_attention'");
}

TEST_CASE("a nested config is read with pointers of its own") {
    CHECK(failure_of(R"({"model_type": "dbrx", "attn_config": 3})") ==
          "/attn_config: expected an object; got " + KeyTree(std::int64_t{3}).describe());
    CHECK(failure_of(R"({"model_type": "dbrx", "ffn_config": {"moe_top_k": "4"}})") ==
          "/ffn_config/moe_top_k: expected a positive integer; got " + KeyTree("4").describe());
}

TEST_CASE("keys of a hand-written config are checked, those of a published one are not") {
    const Family* family = families().find("llama");
    REQUIRE(family != nullptr);
    CHECK(errors_of(unknown_keys(*family, tree_of(R"({"hiden_size": 8, "rope_theta": 1e4})"))) ==
          "/hiden_size: expected a key of family 'llama'; got 'hiden_size' (did you mean "
          "'hidden_size'?)");
    CHECK(build_model(tree_of(R"({"model_type": "llama", "hiden_size": 8})")).ok());
}
