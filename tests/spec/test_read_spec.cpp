#include "catch.hpp"
#include "membudget/spec.hpp"

#include <algorithm>
#include <random>
#include <set>

#include "spec/shown.hpp"

using namespace membudget;

namespace {

/// Every key of the spec, most of them with a value that is not its default.
constexpr const char* kEverything = R"({
  "membudget": 1,
  "name": "everything",
  "model": {"config": "models/config.json", "architecture": "LlamaForCausalLM",
            "weights": ["model.safetensors"]},
  "training": {
    "framework": "transformers",
    "precision": {"name": "bf16-autocast", "parameters": "fp32", "gradients": "bf16",
                  "master_weights": "none", "compute": "fp16"},
    "optimizer": {"name": "adamw", "implementation": "fused",
                  "states": {"exp_avg": {"dtype": "int8"}, "exp_avg_sq": "bf16"},
                  "options": {"rank": 128, "block": -1}, "clip": 1.0, "in_backward": false,
                  "ema": "fp32"},
    "micro_batch_size": 4, "gradient_accumulation_steps": 8.0, "global_batch_size": 64e0,
    "sequence_length": 8192, "target_length": 128, "images": 0,
    "image_size": [448, 336], "padding_mask": true,
    "keep_logits": false, "use_cache": true, "carry_outputs": false, "step": "first",
    "zero_grad": "zero",
    "activation_checkpointing": {"mode": "full", "every": 2, "first": 10, "reentrant": true,
                                 "offload": false},
    "attention": "flash", "loss": {"name": "eager", "chunks": 4},
    "kernels": {"rms_norm": "fused", "silu": "eager"},
    "dropout": 0.25,
    "lora": {"adapter_config": "adapter_config.json", "rank": 16, "alpha": 32, "dropout": 0,
             "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["lm_head"], "dora": true,
             "rslora": false, "bias": "none", "dtype": "fp32", "r": 16, "lora_alpha": 32,
             "lora_dropout": 0, "exclude_modules": ["a"], "layers_to_transform": [0, 2],
             "layers_pattern": "layers", "rank_pattern": {"q_proj": 4},
             "alpha_pattern": {"q_proj": 8}, "target_parameters": ["experts.down_proj"], "use_dora": true,
             "use_rslora": false, "lora_bias": false, "task_type": "CAUSAL_LM",
             "autocast_adapter_dtype": true, "input_gradients": true},
    "freeze": ["model.embed_tokens.*"],
    "quantization": {"type": "nf4", "double_quant": true, "block_size": 64, "group_size": 128,
                     "compute": "bf16", "skip_modules": ["lm_head"], "prepare": true},
    "offload": {"optimizer_states": "host"},
    "moe_imbalance": 1.5
  },
  "parallelism": {"data": {"replicate": 2, "shard": 8}, "sharding": "hsdp", "tensor": 4,
                  "sequence_parallel": true, "pipeline": 2, "schedule": "1f1b", "context": 3,
                  "expert": 5},
  "terms": {
    "temporaries/optimizer_step": "1GB",
    "activations": {"bytes": "6GB", "lower": 5000000000, "upper": "6.5GB",
                    "phases": ["forward", "backward"],
                    "at": {"micro_batch_size": 2, "sequence_length": 4096}}
  },
  "device": {"name": "h100-80gb", "memory": "80GB", "reserve": "2GiB"},
  "allocator": {"backend": {"any": [1]}},
  "scenarios": {"half": {"training": {"micro_batch_size": 2, "lora": null}}}
})";

Spec read(std::string_view text) {
    return read_spec(parse_json(text, "run.json").value(), "run.json").value();
}

std::string name_at(const std::optional<NamedAt>& name) {
    return name ? name->name + " at " + name->pointer : "absent";
}

/// The node of `tree` to which an RFC 6901 pointer leads, or null.
const KeyTree* resolve_pointer(const KeyTree& tree, std::string_view pointer) {
    const KeyTree* node = &tree;
    while (!pointer.empty()) {
        if (pointer.front() != '/') return nullptr;
        pointer.remove_prefix(1);
        const std::string_view token = pointer.substr(0, pointer.find('/'));
        pointer.remove_prefix(token.size());
        std::string key;
        for (std::size_t i = 0; i < token.size(); ++i)
            key += token[i] != '~' ? token[i] : token[++i] == '0' ? '~' : '/';
        const KeyTree* next = node->find(key);
        if (next == nullptr && node->is(KeyTree::Kind::array))
            next = &node->items().at(std::stoul(key));
        if (next == nullptr) return nullptr;
        node = next;
    }
    return node;
}

}  // namespace

TEST_CASE("a spec with every key is read whole", "[spec]") {
    const Spec spec = read(kEverything);
    CHECK(spec.file == "run.json");
    CHECK(spec.name == "everything");
    CHECK(spec.model.config == "models/config.json");
    CHECK(name_at(spec.model.architecture) == "LlamaForCausalLM at /model/architecture");
    CHECK_FALSE(spec.model.parameters);

    const TrainingSpec& training = spec.training;
    CHECK(name_at(training.framework) == "transformers at /training/framework");
    CHECK(name_at(training.precision.scheme) == "bf16-autocast at /training/precision/name");
    CHECK(name_at(training.precision.parameters) == "fp32 at /training/precision/parameters");
    CHECK(name_at(training.precision.gradients) == "bf16 at /training/precision/gradients");
    CHECK(name_at(training.precision.master_weights) ==
          "none at /training/precision/master_weights");
    CHECK(name_at(training.precision.compute) == "fp16 at /training/precision/compute");
    const OptimizerSpec& optimizer = training.optimizer;
    CHECK(name_at(optimizer.row) == "adamw at /training/optimizer/name");
    CHECK(name_at(optimizer.implementation) == "fused at /training/optimizer/implementation");
    REQUIRE(optimizer.states.size() == 2);
    CHECK(optimizer.states[0].first == "exp_avg");
    CHECK(name_at(optimizer.states[0].second) ==
          "int8 at /training/optimizer/states/exp_avg/dtype");
    CHECK(name_at(optimizer.states[1].second) == "bf16 at /training/optimizer/states/exp_avg_sq");
    REQUIRE(optimizer.options.size() == 2);
    CHECK(optimizer.options[0] == KeyTree::Member("rank", KeyTree(std::int64_t{128})));
    CHECK(optimizer.options[1] == KeyTree::Member("block", KeyTree(std::int64_t{-1})));
    CHECK(optimizer.clip == true);
    CHECK(optimizer.in_backward == false);
    CHECK(name_at(optimizer.ema) == "fp32 at /training/optimizer/ema");
    CHECK(training.micro_batch_size == 4);
    CHECK(training.gradient_accumulation_steps == 8);
    CHECK(training.global_batch_size == 64);
    CHECK(training.sequence_length == 8192);
    CHECK(training.target_length == 128);
    CHECK(training.images == 0);
    REQUIRE(training.image_size);
    CHECK(training.image_size->height == 448);
    CHECK(training.image_size->width == 336);
    CHECK(training.padding_mask == true);
    CHECK(training.keep_logits == false);
    CHECK(training.use_cache == true);
    CHECK(training.carry_outputs == false);
    CHECK(name_at(training.step) == "first at /training/step");
    CHECK(name_at(training.zero_grad) == "zero at /training/zero_grad");
    CHECK(name_at(training.activation_checkpointing.mode) ==
          "full at /training/activation_checkpointing/mode");
    CHECK(training.activation_checkpointing.every == 2);
    CHECK(training.activation_checkpointing.first == 10);
    CHECK(training.activation_checkpointing.reentrant == true);
    CHECK(training.activation_checkpointing.offload == false);
    CHECK(name_at(training.attention) == "flash at /training/attention");
    CHECK(name_at(training.loss.row) == "eager at /training/loss/name");
    CHECK(training.loss.chunks == 4);
    REQUIRE(training.kernels.choices.size() == 2);
    CHECK(training.kernels.choices[0].first == "rms_norm");
    CHECK(name_at(training.kernels.choices[1].second) == "eager at /training/kernels/silu");
    CHECK(training.dropout == 0.25);
    REQUIRE(training.lora);
    CHECK(training.lora->adapter_config == "adapter_config.json");
    CHECK(training.lora->rank == 16);
    CHECK(training.lora->alpha == 32);
    CHECK(training.lora->dropout == 0.0);
    REQUIRE(training.lora->target_modules.size() == 2);
    CHECK(name_at(training.lora->target_modules[1]) == "v_proj at /training/lora/target_modules/1");
    CHECK(training.lora->modules_to_save.size() == 1);
    CHECK(training.lora->dora == true);
    CHECK(training.lora->rslora == false);
    CHECK(name_at(training.lora->bias) == "none at /training/lora/bias");
    CHECK(name_at(training.lora->dtype) == "fp32 at /training/lora/dtype");
    REQUIRE(training.freeze.size() == 1);
    CHECK(name_at(training.freeze[0]) == "model.embed_tokens.* at /training/freeze/0");
    CHECK(training.lora->layers_to_transform == std::vector<std::int64_t>{0, 2});
    CHECK(training.lora->rank_pattern.size() == 1);
    REQUIRE(training.lora->target_parameters.size() == 1);
    CHECK(training.lora->target_parameters[0].name == "experts.down_proj");
    CHECK(name_at(training.quantization.row) == "nf4 at /training/quantization/type");
    CHECK(training.quantization.double_quant == true);
    REQUIRE(training.quantization.skip_modules);
    CHECK(training.quantization.skip_modules->size() == 1);
    REQUIRE(training.offload.size() == 1);
    CHECK(training.offload[0].first == "optimizer_states");
    CHECK(name_at(training.offload[0].second) == "host at /training/offload/optimizer_states");
    CHECK(training.moe_imbalance == 1.5);

    const ParallelismSpec& parallelism = spec.parallelism;
    CHECK_FALSE(parallelism.data);
    CHECK(parallelism.replicate == 2);
    CHECK(parallelism.shard == 8);
    CHECK(name_at(parallelism.sharding) == "hsdp at /parallelism/sharding");
    CHECK(parallelism.tensor == 4);
    CHECK(parallelism.sequence_parallel == true);
    CHECK(parallelism.pipeline == 2);
    CHECK(name_at(parallelism.schedule) == "1f1b at /parallelism/schedule");
    CHECK(parallelism.context == 3);
    CHECK(parallelism.expert == 5);

    REQUIRE(spec.terms.size() == 2);
    CHECK(spec.terms[0].path == "temporaries/optimizer_step");
    CHECK(spec.terms[0].pointer == "/terms/temporaries~1optimizer_step");
    CHECK(spec.terms[0].bytes == Bytes(1'000'000'000));
    CHECK_FALSE(spec.terms[0].lower);
    const StatedTerm& activations = spec.terms[1];
    CHECK(activations.bytes == Bytes(6'000'000'000));
    CHECK(activations.lower == Bytes(5'000'000'000));
    CHECK(activations.upper == Bytes(6'500'000'000));
    REQUIRE(activations.phases.size() == 2);
    CHECK(name_at(activations.phases[1]) == "backward at /terms/activations/phases/1");
    CHECK(activations.at_micro_batch_size == 2);
    CHECK(activations.at_sequence_length == 4096);

    CHECK(name_at(spec.device.name) == "h100-80gb at /device/name");
    CHECK(spec.device.memory == Bytes(80'000'000'000));
    CHECK(spec.device.reserve == Bytes(2'147'483'648));
    REQUIRE(spec.allocator.size() == 1);
    CHECK(spec.allocator[0].first == "backend");
    REQUIRE(spec.scenarios.size() == 1);
    CHECK(spec.scenarios[0].name == "half");
    CHECK(spec.scenarios[0].patch.find("training")->find("lora")->is_null());
}

TEST_CASE("the short forms of a spec", "[spec]") {
    const Spec spec = read(R"({"membudget": 1, "model": {"parameters": 1e8},
        "training": {"optimizer": "adam", "precision": "fp32", "activation_checkpointing": "none",
                     "lora": {"target_modules": "all-linear"}},
        "parallelism": {"data": 8}, "device": "a100-40gb", "terms": {"activations": 6000000000}})");
    CHECK(spec.model.parameters == 100'000'000);
    CHECK(name_at(spec.training.optimizer.row) == "adam at /training/optimizer");
    CHECK(name_at(spec.training.precision.scheme) == "fp32 at /training/precision");
    CHECK(name_at(spec.training.activation_checkpointing.mode) ==
          "none at /training/activation_checkpointing");
    REQUIRE(spec.training.lora->target_modules.size() == 1);
    CHECK(name_at(spec.training.lora->target_modules[0]) ==
          "all-linear at /training/lora/target_modules");
    CHECK(spec.parallelism.data == 8);
    CHECK(name_at(spec.device.name) == "a100-40gb at /device");
    CHECK(spec.terms.at(0).bytes == Bytes(6'000'000'000));
}

TEST_CASE("a spec of stated terms only is whole, and what was not said is absent", "[spec]") {
    const Spec spec = read(R"({"membudget": 1, "terms": {"activations": "6GB"}})");
    CHECK_FALSE(spec.model.name);
    CHECK_FALSE(spec.training.lora);
    CHECK_FALSE(spec.training.micro_batch_size);
    CHECK_FALSE(spec.name);
    CHECK(spec.terms.size() == 1);
}

TEST_CASE("the config of a family stands beside it", "[spec]") {
    const Spec spec = read(R"({"membudget": 1, "model": {"hidden_size": 64, "family": "llama",
        "rope": {"theta": 1.5}, "architecture": "X", "famil": 3}})");
    CHECK(name_at(spec.model.family) == "llama at /model/family");
    CHECK(name_at(spec.model.architecture) == "X at /model/architecture");
    REQUIRE(spec.model.family_config.members().size() == 3);
    CHECK(spec.model.family_config.find("hidden_size")->integer() == 64);
    CHECK(spec.model.family_config.find("rope")->find("theta")->number() == 1.5);
}

TEST_CASE("whole numbers in any notation are counts, exactly", "[spec]") {
    struct Case {
        const char* text;
        std::optional<std::int64_t> value;
    };
    const auto [text, value] = GENERATE(values<Case>({
        {"8", 8},
        {"8.0", 8},
        {"8.000000000000000000000000", 8},
        {"1e3", 1000},
        {"1.5e1", 15},
        {"1000e-3", 1},
        {"0.5e1", 5},
        {"1000000000", 1'000'000'000},
        {"1000000000.0", 1'000'000'000},
        {"1e9", 1'000'000'000},
        {"8.0000000000000000000000001", std::nullopt},  // 8.0 to a double
        {"999999999.99999999999", std::nullopt},        // 1e9 to a double
        {"1.5e0", std::nullopt},
        {"1e-1", std::nullopt},
        {"0e5", std::nullopt},
        {"0.0", std::nullopt},
        {"-0.0", std::nullopt},
        {"-8.0", std::nullopt},
        {"1e18", std::nullopt},
        {"1e19", std::nullopt},
        {"1e300", std::nullopt},
        {"1000000000.1", std::nullopt},
        {"0.00000000000000000000000000000001e40", 100'000'000},
        {"1e-99999999999999999999", std::nullopt},
    }));
    INFO(text);
    const std::string document = std::string(R"({"membudget": 1, "terms": {"activations": "1GB"},
        "training": {"micro_batch_size": )") + text + "}}";
    const Result<Spec> spec = read_spec(parse_json(document, "").value(), "");
    REQUIRE(spec.ok() == value.has_value());
    if (value) CHECK(spec->training.micro_batch_size == value);
}

TEST_CASE("spec_keys lists every key once, and the full example has them all", "[spec]") {
    const KeyTree everything = parse_json(kEverything, "").value();
    std::set<std::string> pointers;
    for (const SpecKey& key : spec_keys()) {
        INFO(key.pointer);
        CHECK(pointers.insert(key.pointer).second);
        CHECK_FALSE(key.type.empty());
        CHECK_FALSE(key.doc.empty());
        // The other ways to name a model cannot stand beside the first.
        if (key.pointer == "/model/name" || key.pointer == "/model/family" ||
            key.pointer == "/model/parameters")
            continue;
        std::string example = key.pointer;
        for (const auto& [placeholder, word] :
             {std::pair{"SLOT", "exp_avg"}, std::pair{"PATH", "activations"}})
            if (const auto at = example.find(placeholder); at != std::string::npos)
                example.replace(at, std::string(placeholder).size(), word);
        CHECK(resolve_pointer(everything, example) != nullptr);
    }
    CHECK(pointers.size() > 70);
}

TEST_CASE("a document of nothing but mistakes is given up", "[spec]") {
    KeyTree tree = parse_json(R"({"membudget": 1})", "").value();
    for (int i = 0; i < 100'000; ++i)
        tree.members().emplace_back("wrong" + std::to_string(i), KeyTree());
    const Result<Spec> spec = read_spec(tree, "");
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.errors().size() == 201);
    CHECK(spec.errors().list().back().message ==
          "expected fewer mistakes; got 200 and stopped looking");
}

TEST_CASE("a ledger has an end", "[spec]") {
    KeyTree tree = parse_json(R"({"membudget": 1, "terms": {}})", "").value();
    for (int i = 0; i < 10'000; ++i)
        tree.at_or_add("terms").members().emplace_back("padding/p" + std::to_string(i),
                                                       KeyTree(std::int64_t{i}));
    CHECK(read_spec(tree, "").value().terms.size() == 10'000);
    tree.at_or_add("terms").members().emplace_back("padding/more", KeyTree(std::int64_t{1}));
    CHECK(shown(read_spec(tree, "").errors()) ==
          "error: /terms: expected at most 10000 terms; got 10001\n");
}

TEST_CASE("a spoilt spec is refused with pointers that lead somewhere", "[spec]") {
    const KeyTree whole = parse_json(kEverything, "").value();
    std::mt19937 random(5);
    const auto spoil = [&random](KeyTree& node) {
        switch (random() % 6) {
            case 0: node = KeyTree(); break;
            case 1: node = KeyTree("word"); break;
            case 2: node = KeyTree(std::int64_t{-1}); break;
            case 3: node = KeyTree::number(1.5, "1.5"); break;
            case 4: node = KeyTree::array({KeyTree(true)}); break;
            default:
                if (node.members().empty())
                    node = KeyTree::object();
                else
                    node.members()[random() % node.members().size()].first += "x~/";
        }
    };
    int refused = 0;
    for (int i = 0; i < 5000; ++i) {
        KeyTree tree = whole;
        KeyTree* node = &tree;
        for (auto steps = random() % 5 + 1; steps > 0; --steps) {
            if (!node->members().empty())
                node = &node->members()[random() % node->members().size()].second;
        }
        spoil(*node);
        const Result<Spec> spec = read_spec(tree, "");
        if (spec.ok()) continue;
        ++refused;
        for (const Diagnostic& one : spec.errors().list()) {
            INFO(one.pointer << ": " << one.message);
            CHECK(resolve_pointer(tree, one.pointer) != nullptr);
            CHECK((one.message.find("; got ") != std::string::npos ||
                   one.message.starts_with("unknown key ")));
        }
    }
    CHECK(refused > 3000);
}
