/// Headers of weight files: what is read, what is refused, and how a file compares with a model.

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "weight_files.hpp"

using namespace membudget;

namespace {

std::string safetensors_failure(const std::string& bytes) {
    const auto file = read_safetensors(bytes);
    REQUIRE_FALSE(file.ok());
    return errors_of(file.errors());
}

std::string safetensors_failure(std::string_view header, std::size_t data) {
    return safetensors_failure(safetensors_of(header, data));
}

std::string gguf_failure(const std::string& bytes) {
    const auto file = read_gguf(bytes);
    REQUIRE_FALSE(file.ok());
    return errors_of(file.errors());
}

std::string index_failure(std::string_view text) {
    const auto file = read_safetensors_index(text, {});
    REQUIRE_FALSE(file.ok());
    return errors_of(file.errors());
}

/// Writes `bytes` where no other test writes, and reads them as a weight file.
Result<WeightFile> read_back(const std::string& bytes) {
    const auto path = std::filesystem::temp_directory_path() / "membudget-test-weights.bin";
    std::ofstream(path, std::ios::binary) << bytes;
    auto out = read_weights(path.string());
    std::filesystem::remove(path);
    return out;
}

/// A model of few tensors, with or without an own lm_head.
Model small_model(bool tied) {
    return model_of(std::string(R"({"model_type": "llama", "hidden_size": 8, "vocab_size": 32,
        "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "tie_word_embeddings": )") + (tied ? "true}" : "false}"));
}

/// The file that holds exactly the parameters of `model`.
WeightFile file_of(const Model& model, WeightFormat format) {
    WeightFile out{format, {}, {}, {}};
    Bytes total;
    model.for_each_parameter([&](std::string name, const Parameter& parameter, std::int64_t) {
        if (!parameter.tied_to.empty()) return;
        if (const std::size_t at = name.find("{}"); at != name.npos) name.replace(at, 2, "0");
        const Elements n = parameter.elements();
        out.tensors.push_back({name, parameter.shape, "BF16", n, n.count() * Bytes(2), {}});
        total += out.tensors.back().bytes;
    });
    out.total_bytes = total;
    return out;
}

std::string differences_of(const WeightCheck& check) {
    std::string out;
    for (const WeightDifference& d : check.differences)
        out += d.tensor + ": " + d.what + (d.reason.empty() ? "" : " (" + d.reason + ")") + "\n";
    return out;
}

}  // namespace

TEST_CASE("a safetensors header gives names, types and shapes") {
    const auto file = read_safetensors(safetensors_of(
        R"({"__metadata__": {"format": "pt"},
            "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
            "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "none": {"dtype": "I64", "shape": [0, 5], "data_offsets": [24, 24]},
            "packed": {"dtype": "F4", "shape": [6], "data_offsets": [26, 29]}}      )", 29));
    REQUIRE(file.ok());
    REQUIRE(file->tensors.size() == 4);
    CHECK(file->tensors[0].name == "b");
    CHECK(file->tensors[0].elements.count() == 1);
    CHECK(file->tensors[1].shape == std::vector<std::int64_t>{2, 3});
    CHECK(file->tensors[1].dtype == "F32");
    CHECK(file->tensors[1].bytes.count() == 24);
    CHECK(file->tensors[3].bytes.count() == 3);
    CHECK(file->total_bytes == Bytes(29));
    CHECK(read_safetensors(safetensors_of("{}", 0)).ok());
}

TEST_CASE("safetensors headers that lie are refused") {
    CHECK(safetensors_failure("abc") == ": expected the 8 bytes of a header's length; got 3");
    CHECK(safetensors_failure(le(50, 8) + "{}") ==
          ": expected a header of 50 bytes; got 2 to the end of the file");
    CHECK(safetensors_failure(le(~0ULL, 8) + "{}") ==
          ": expected a header of at most 100000000 bytes; got 18446744073709551615");
    CHECK(safetensors_failure(le(100'000'001, 8) + "{}") ==
          ": expected a header of at most 100000000 bytes; got 100000001");
    CHECK(safetensors_failure(" {}", 0) == ": expected a header that starts with '{'; got ' {}'");
    CHECK(safetensors_failure("{}", 7) ==
          ": expected 0 bytes of tensors after the header; got 7");
    CHECK(safetensors_failure(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", 3) ==
          ": expected 4 bytes of tensors after the header; got 3 (the file is cut off: fetch it again)");
    CHECK(safetensors_failure(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                                  "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})", 6) ==
          "/b/data_offsets: expected data from byte 4, where the tensor before it ends; got an "
          "overlap from byte 2");
    CHECK(safetensors_failure(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})", 2) ==
          "/a/data_offsets: expected data from byte 0, where the tensor before it ends; got a hole "
          "from byte 1");
    CHECK(safetensors_failure(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                                  "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})", 2) ==
          "/a: expected every key once; got 'a' again");
    CHECK(safetensors_failure(R"({"__metadata__": {"n": 1}})", 0) ==
          "/__metadata__/n: expected a string; got an integer (1)");
    std::string deep = R"({"a": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
    CHECK(safetensors_failure(deep, 0) == ": expected at most 8 levels of nesting; got more");
}

TEST_CASE("safetensors entries that do not add up are refused, all in one run") {
    CHECK(safetensors_failure(R"({"a": {"dtype": "BF1", "shape": [2, -1], "data_offsets": [0, 4]},
                                  "b": 1})", 4) ==
          "/a/dtype: expected an element type of safetensors; got a string ('BF1') (did you mean "
          "'BF16'?)\n"
          "/a/shape/1: expected a whole number from 0 to 281474976710655; got a negative integer (-1)\n"
          "/b: expected an object with 'dtype', 'shape' and 'data_offsets'; got an integer (1)");
    CHECK(safetensors_failure(
              R"({"a": {"dtype": "U8", "shape": [9223372036854775808], "data_offsets": [0, 1]}})", 1)
              .starts_with("/a/shape/0: expected a whole number from 0 to 281474976710655; got"));
    CHECK(safetensors_failure(
              R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 1]}})",
              1) == "/a/shape: expected at most 281474976710655 elements; got [4294967296, 4294967296]");
    CHECK(safetensors_failure(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4) ==
          "/a/data_offsets: expected 2 of F32 to take 64 bits; got 4 bytes");
    CHECK(safetensors_failure(R"({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}})", 2) ==
          "/a/data_offsets: expected 3 of F4 to take 12 bits; got 2 bytes");
    CHECK(safetensors_failure(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}})", 1) ==
          "/a/data_offsets: expected a begin and an end not before it; got [1, 0]");
}

TEST_CASE("an index gives names and total bytes") {
    const auto file = read_safetensors_index(
        R"({"metadata": {"total_size": 13731385408.0, "mergekit_version": "1"}, "more": [],
            "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})", "i.json");
    REQUIRE(file.ok());
    CHECK(file->tensors[1].name == "b");
    CHECK(file->tensors[1].shard == "m-2.safetensors");
    CHECK(file->total_bytes == Bytes(13731385408));
    CHECK_FALSE(read_safetensors_index(R"({"metadata": {}, "weight_map": {}})", {})->total_bytes);
    CHECK(index_failure("{}") == ": expected an object 'weight_map' of tensor names; got none");
    CHECK(index_failure(R"({"weight_map": {"a": 1}})") ==
          "/weight_map/a: expected the name of a file; got an integer (1)");
    for (const char* size : {"-1", "1.5", "1e300", "\"1\""})
        CHECK(index_failure(std::string(R"({"metadata": {"total_size": )") + size +
                            R"(}, "weight_map": {}})")
                  .starts_with("/metadata/total_size: expected a whole number of bytes"));
}

TEST_CASE("a GGUF header gives names, types and shapes in the framework's order") {
    const std::string alignment = gguf_text("general.alignment") + le(4, 4) + le(64, 4);
    const std::string tokens = gguf_text("tokens") + le(9, 4) + le(8, 4) + le(2, 8) +
                               gguf_text("a") + gguf_text("bc");
    const std::string nested = gguf_text("nested") + le(9, 4) + le(9, 4) + le(1, 8) + le(4, 4) +
                               le(2, 8) + std::string(8, '\0');
    const std::string scores = gguf_text("scores") + le(9, 4) + le(6, 4) + le(100'000, 8) +
                               std::string(400'000, '\0');
    std::string bytes = gguf_of({alignment, tokens, nested, scores},
                                {gguf_tensor("output.weight", {512, 2}, 12, 0),
                                 gguf_tensor("norm.weight", {8}, 0, 576)}, 0);
    bytes.resize((bytes.size() + 63) / 64 * 64 + 576 + 32);
    const auto file = read_gguf(bytes);
    INFO((file.ok() ? std::string() : errors_of(file.errors())));
    REQUIRE(file.ok());
    REQUIRE(file->tensors.size() == 2);
    CHECK(file->tensors[0].shape == std::vector<std::int64_t>{2, 512});
    CHECK(file->tensors[0].dtype == "Q4_K");
    CHECK(file->tensors[0].bytes.count() == 576);
    CHECK(file->total_bytes == Bytes(576 + 32));
}

TEST_CASE("GGUF headers that lie are refused") {
    const auto one = [](const std::string& tensor) { return gguf_failure(gguf_of({}, {tensor}, 64)); };
    CHECK(gguf_failure("GGUF") == ": expected 4 more bytes of the header; got 0 to the end of the file");
    CHECK(gguf_failure("GGML" + le(3, 4)) == ": expected a file that starts with 'GGUF'; got 'GGML'");
    CHECK(gguf_failure("GGUF" + le(1, 4)) == ": expected version 2 or 3 of GGUF; got 1");
    CHECK(gguf_failure(std::string("GGUF\0\0\0\3", 8)) ==
          ": expected a little-endian GGUF file; got a big-endian one");
    CHECK(gguf_failure("GGUF" + le(3, 4) + le(1ULL << 62, 8)) ==
          ": expected at most 1000000 tensors; got 4611686018427387904");
    CHECK(gguf_failure("GGUF" + le(3, 4) + le(999'999, 8) + le(0, 8)) ==
          "/tensors/0: expected 8 more bytes of the header; got 0 to the end of the file");
    CHECK(gguf_failure(gguf_of({le(1ULL << 62, 8)}, {}, 0)) ==
          "/metadata: expected a string of at most 65535 bytes; got 4611686018427387904");
    CHECK(gguf_failure(gguf_of({gguf_text("k") + le(13, 4)}, {}, 0)) ==
          "/metadata/k: expected a value of type 0 to 12; got 13");
    const std::string value = gguf_text("k") + le(0, 4) + le(0, 1);
    CHECK(gguf_failure(gguf_of({value, value}, {}, 0)) ==
          "/metadata/k: expected every key once; got it again");
    std::string deep = gguf_text("k") + le(9, 4);
    for (int i = 0; i < 100'000; ++i) deep += le(9, 4) + le(1, 8);
    CHECK(gguf_failure(gguf_of({deep}, {}, 0)) ==
          "/metadata/k: expected at most 4 levels of arrays; got more");
    CHECK(gguf_failure(gguf_of({gguf_text("k") + le(9, 4) + le(8, 4) + le(1ULL << 60, 8)}, {}, 0)) ==
          "/metadata/k: expected an array of at most 1073741824 items; got 1152921504606846976");
    CHECK(gguf_failure(gguf_of({gguf_text("general.alignment") + le(4, 4) + le(0, 4)}, {}, 0)) ==
          "/metadata/general.alignment: expected a power of 2; got 0");
    CHECK(one(gguf_tensor(std::string(64, 'n'), {1}, 0, 0)) ==
          "/tensors/0: expected a string of at most 63 bytes; got 64");
    CHECK(one(gguf_tensor("a", {1, 1, 1, 1, 1}, 0, 0)) ==
          "/tensors/a: expected at most 4 dimensions; got 5");
    CHECK(one(gguf_tensor("a", {1ULL << 63, 2}, 0, 0)) ==
          "/tensors/a: expected extents of at most 281474976710655; got 9223372036854775808");
    CHECK(one(gguf_tensor("a", {1ULL << 40, 1ULL << 40}, 0, 0)) ==
          "/tensors/a: expected at most 281474976710655 elements; got [1099511627776, 1099511627776]");
    CHECK(one(gguf_tensor("a", {8}, 4, 0)) == "/tensors/a: expected a known type of ggml; got 4");
    CHECK(one(gguf_tensor("a", {33}, 2, 0)) ==
          "/tensors/a: expected rows of a multiple of 32 elements of Q4_0; got 33");
    CHECK(one(gguf_tensor("a", {8}, 0, 8)) ==
          "/tensors/a: expected an offset that is a multiple of 32 and at most 281474976710655; got 8");
    CHECK(one(gguf_tensor("a", {32}, 0, 0)) ==
          "/tensors/a: expected 128 bytes of data after the header; got 64");
    CHECK(gguf_failure(gguf_of({}, {gguf_tensor("a", {16}, 0, 0), gguf_tensor("b", {8}, 0, 32)}, 96)) ==
          "/tensors/b: expected data from byte 64 on, where the tensor before it ends; got an "
          "overlap from byte 32");
    CHECK(gguf_failure(gguf_of({}, {gguf_tensor("a", {8}, 0, 0), gguf_tensor("a", {8}, 0, 32)}, 64)) ==
          "/tensors/a: expected every name once; got it again");
    CHECK_FALSE(read_gguf("GGUF" + le(1, 4)).errors().any_invalid());
    // Sizes whose sum leaves 64 bits are refused before they are added up.
    std::vector<std::string> many;
    for (int i = 0; i < 5000; ++i)
        many.push_back(gguf_tensor(std::to_string(i), {(1ULL << 48) - 1}, 28, 0));
    CHECK(gguf_failure(gguf_of({}, many, 0)) ==
          "/tensors/0: expected 2251799813685240 bytes of data after the header; got 0");
}

TEST_CASE("the content of a file says which format it is") {
    CHECK(read_back(safetensors_of("{}", 0))->format == WeightFormat::safetensors);
    // The length of this header reads as '{'.
    CHECK(read_back(safetensors_of("{" + std::string(121, ' ') + "}", 0))->format ==
          WeightFormat::safetensors);
    CHECK(read_back("\xEF\xBB\xBF {\"weight_map\": {}}")->format == WeightFormat::index);
    CHECK(read_back(gguf_of({}, {}, 0))->format == WeightFormat::gguf);
    CHECK(read_back(le(~0ULL, 8) + "{").errors().list()[0].message ==
          "expected a header of at most 100000000 bytes; got 18446744073709551615");
    CHECK_FALSE(read_back("PK\3\4 archive").errors().any_invalid());
    CHECK(read_back("").errors().list()[0].message.ends_with("got an empty file"));
    CHECK(read_back("weights").errors().list()[0].message.ends_with("starts with 'weights'"));
    CHECK_FALSE(read_weights("no/such/file").ok());
    CHECK_FALSE(read_weights(".").ok());
}

TEST_CASE("a file of exactly the model's parameters agrees with it") {
    for (const bool tied : {false, true}) {
        const Model model = small_model(tied);
        for (const WeightFormat format : {WeightFormat::safetensors, WeightFormat::index}) {
            const WeightFile file = file_of(model, format);
            const WeightCheck check = check_weights(model, file);
            INFO(name_of(format) << ": " << differences_of(check));
            CHECK(check.differences.empty());
            CHECK(check.matched == static_cast<std::int64_t>(file.tensors.size()));
        }
    }
}

TEST_CASE("a check names the tensors that differ and the reasons it knows") {
    const Model model = small_model(true);
    WeightFile file = file_of(model, WeightFormat::safetensors);
    file.tensors.push_back({"lm_head.weight", {32, 8}, "BF16", Elements(256), Bytes(512), {}});
    CHECK(check_weights(model, file).differences.empty());  // the tied copy

    file.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}, "F32", Elements(2),
                            Bytes(8), {}});
    CHECK(differences_of(check_weights(model, file)) ==
          "model.layers.0.self_attn.rotary_emb.inv_freq: in the file, not in the model (a buffer, "
          "not a parameter)\n");
    CHECK(check_weights(model, file).ok());

    file.tensors.pop_back();
    file.tensors.erase(file.tensors.begin());  // only the tied copy is left of the embeddings
    CHECK(check_weights(model, file).differences.empty());

    file = file_of(model, WeightFormat::safetensors);
    std::swap(file.tensors[0].shape[0], file.tensors[0].shape[1]);
    file.tensors[1].name = "model.layers.0.unheard_of.weight";
    CHECK(differences_of(check_weights(model, file)) ==
          "model.embed_tokens.weight: expected shape [32, 8]; got [8, 32]\n"
          "model.layers.0.unheard_of.weight: in the file, not in the model\n"
          "model.layers.0.input_layernorm.weight: in the model, not in the file\n");
    CHECK_FALSE(check_weights(model, file).ok());
}

TEST_CASE("a further layer that predicts more tokens is known by its own tensors") {
    const Model model = small_model(false);
    WeightFile file = file_of(model, WeightFormat::safetensors);
    file.tensors.push_back({"model.layers.1.input_layernorm.weight", {8}, "BF16", Elements(8),
                            Bytes(16), {}});
    CHECK_FALSE(check_weights(model, file).ok());
    file.tensors.push_back({"model.layers.1.eh_proj.weight", {8, 16}, "BF16", Elements(128),
                            Bytes(256), {}});
    CHECK(check_weights(model, file).ok());
}

TEST_CASE("an index's total is compared with the parameters") {
    const Model model = small_model(false);
    const std::int64_t parameters = count_parameters(model).total.count();
    WeightFile file = file_of(model, WeightFormat::index);
    for (const std::int64_t bytes : {1, 2, 4}) {
        file.total_bytes = Bytes(parameters * bytes);
        CHECK(check_weights(model, file).differences.empty());
    }
    file.total_bytes = Bytes(parameters * 2 + 8);
    CHECK_FALSE(check_weights(model, file).ok());
    file.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {}, {}, {}, {}, {}});
    const WeightCheck check = check_weights(model, file);
    CHECK(check.ok());
    CHECK(check.differences.back().reason == "8 bytes in 1 tensors that are no parameters");
    file.total_bytes = Bytes(parameters - 1);
    CHECK_FALSE(check_weights(model, file).ok());
}

TEST_CASE("tensors of single experts make up the stack of all") {
    const Model model = model_of(
        R"({"model_type": "mixtral", "hidden_size": 8, "intermediate_size": 16, "vocab_size": 32,
            "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
            "num_local_experts": 2, "num_experts_per_tok": 1})");
    WeightFile file = file_of(model, WeightFormat::safetensors);
    std::erase_if(file.tensors, [](const WeightTensor& t) {
        return t.name.find(".experts.") != t.name.npos;
    });
    for (const std::string expert : {"0", "1"})
        for (const std::string part : {"w1", "w2", "w3"}) {
            const std::string name =
                "model.layers.0.block_sparse_moe.experts." + expert + "." + part + ".weight";
            const std::vector<std::int64_t> shape =
                part == "w2" ? std::vector<std::int64_t>{8, 16} : std::vector<std::int64_t>{16, 8};
            file.tensors.push_back({name, shape, "BF16", Elements(128), Bytes(256), {}});
        }
    CHECK(differences_of(check_weights(model, file)) == "");
    file.tensors.back().shape = {8, 16};
    CHECK(differences_of(check_weights(model, file)) ==
          "model.layers.0.block_sparse_moe.experts.1.w3.weight: expected shape [16, 8]; got [8, 16]\n");
    file.tensors.pop_back();
    CHECK(differences_of(check_weights(model, file)) ==
          "model.layers.0.mlp.experts.gate_up_proj: expected 4 tensors of its pieces; got 3\n");
}

TEST_CASE("tensors that a class has split are pieces of one in the file") {
    const Model model = model_of(
        R"({"model_type": "dinov2", "architectures": ["Dinov2Model"], "hidden_size": 48, "patch_size": 8,
            "image_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "use_swiglu_ffn": true})");
    WeightFile file = file_of(model, WeightFormat::safetensors);
    for (WeightTensor& tensor : file.tensors) {
        const auto rename = [&](std::string_view from, std::string_view to) {
            if (const std::size_t at = tensor.name.find(from); at != tensor.name.npos)
                tensor.name.replace(at, from.size(), to);
        };
        for (const auto& [from, to] :
             {std::pair{"q_proj", "attention.query"}, std::pair{"k_proj", "attention.key"},
              std::pair{"v_proj", "attention.value"}, std::pair{"o_proj", "output.dense"},
              std::pair{"mlp.down_proj", "mlp.weights_out"}})
            rename(from, to);
        if (tensor.name.find("mlp.up_proj") != tensor.name.npos) tensor.shape.front() *= 2;
        rename("mlp.up_proj", "mlp.weights_in");
    }
    std::erase_if(file.tensors, [](const WeightTensor& t) {
        return t.name.find("mlp.gate_proj") != t.name.npos;
    });
    CHECK(differences_of(check_weights(model, file)) == "");
    file = file_of(model, WeightFormat::safetensors);  // the names of the class do as well
    CHECK(differences_of(check_weights(model, file)) == "");
}

TEST_CASE("a GGUF file is compared by llama.cpp's names") {
    const Model model = model_of(
        R"({"model_type": "qwen3_moe", "hidden_size": 8, "moe_intermediate_size": 16, "head_dim": 4,
            "vocab_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_experts": 2,
            "num_key_value_heads": 1, "num_experts_per_tok": 1, "tie_word_embeddings": true})");
    const auto tensor = [](std::string name, std::vector<std::int64_t> shape) {
        Elements n{1};
        for (const std::int64_t extent : shape) n = n * extent;
        return WeightTensor{std::move(name), std::move(shape), "F32", n, n.count() * Bytes(4), {}};
    };
    WeightFile file{WeightFormat::gguf, {}, {
        tensor("token_embd.weight", {32, 8}), tensor("output_norm.weight", {8}),
        tensor("blk.0.attn_norm.weight", {8}), tensor("blk.0.ffn_norm.weight", {8}),
        tensor("blk.0.attn_q.weight", {8, 8}), tensor("blk.0.attn_k.weight", {4, 8}),
        tensor("blk.0.attn_v.weight", {4, 8}), tensor("blk.0.attn_output.weight", {8, 8}),
        tensor("blk.0.attn_q_norm.weight", {4}), tensor("blk.0.attn_k_norm.weight", {4}),
        tensor("blk.0.ffn_gate_inp.weight", {2, 8}),
        tensor("blk.0.ffn_gate_exps.weight", {2, 16, 8}),
        tensor("blk.0.ffn_up_exps.weight", {2, 16, 8}),
        tensor("blk.0.ffn_down_exps.weight", {2, 8, 16})}, {}};
    CHECK(differences_of(check_weights(model, file)) == "");
    CHECK(check_weights(model, file).matched == 14);
    file.tensors[5].shape = {8, 8};
    file.tensors.back().name = "blk.1.ffn_down_exps.weight";
    CHECK(differences_of(check_weights(model, file)) ==
          "blk.0.attn_k.weight: expected shape [4, 8]; got [8, 8]\n"
          "blk.1.ffn_down_exps.weight: in the file, not in the model\n"
          "model.layers.0.mlp.experts.down_proj: in the model, not in the file\n");
}

TEST_CASE("a GGUF file of unknown names is compared by its elements") {
    const Model model = model_of(R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2,
                                     "vocab_size": 32, "n_positions": 4})");
    WeightFile file = file_of(model, WeightFormat::gguf);
    CHECK(differences_of(check_weights(model, file)) == "");
    file.tensors.pop_back();
    CHECK_FALSE(check_weights(model, file).ok());
}
