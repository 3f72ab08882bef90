// Whatever a config says, building its model gives a model or diagnostics.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "membudget/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto tree =
        membudget::parse_json(text, "config.json", membudget::DuplicateKeys::last_wins);
    if (!tree.ok()) return 0;
    const auto model = membudget::build_model(*tree);
    if (model.ok()) static_cast<void>(membudget::count_parameters(*model));
    return 0;
}
