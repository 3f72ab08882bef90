/// Any text as a weight index, compared with a small model: names with shards, or diagnostics.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "membudget/model.hpp"

namespace {

membudget::Model small_model() {
    const auto config = membudget::parse_json(
        R"({"model_type": "mixtral", "hidden_size": 8, "intermediate_size": 16, "vocab_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "num_local_experts": 2, "num_experts_per_tok": 1})",
        "config.json");
    return membudget::build_model(config.value()).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const membudget::Model model = small_model();
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto file = membudget::read_safetensors_index(text, "fuzz");
    if (!file) return 0;
    const membudget::WeightCheck check = membudget::check_weights(model, *file);
    if (check.matched > static_cast<std::int64_t>(file->tensors.size())) std::abort();
    return 0;
}
