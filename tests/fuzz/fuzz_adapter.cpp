// Any text as an adapter_config.json on small models: adapters or diagnostics.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "membudget/job.hpp"

namespace {

membudget::KeyTree config(std::string_view text) { return membudget::parse_json(text, "config.json").value(); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::array configs{
        config(R"({"model_type": "qwen3_moe", "hidden_size": 8, "moe_intermediate_size": 16, "vocab_size": 32,
                   "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "num_experts": 2,
                   "num_experts_per_tok": 1, "mlp_only_layers": [0]})"),
        config(R"({"model_type": "resnet", "embedding_size": 4, "hidden_sizes": [8, 8], "depths": [1, 1]})"),
        config(R"({"model_type": "t5", "vocab_size": 32, "d_model": 8, "num_layers": 2, "num_heads": 2})"),
    };
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto tree = membudget::parse_json(text, "adapter_config.json", membudget::DuplicateKeys::last_wins);
    if (!tree.ok()) return 0;
    for (const membudget::KeyTree& model : configs) {
        membudget::Spec spec;
        spec.file = "spec.json";
        spec.model.config = "config.json";
        spec.training.lora.emplace().adapter_config = "adapter_config.json";
        membudget::ResolveInputs inputs;
        inputs.config = std::make_shared<const membudget::KeyTree>(model);
        inputs.adapter = std::make_shared<const membudget::KeyTree>(*tree);
        const auto adapted = membudget::resolve_model(spec, inputs);
        if (!adapted) continue;
        const auto counts = membudget::count_parameters(*adapted);
        if (counts.trainable > counts.total) std::abort();
    }
    return 0;
}
