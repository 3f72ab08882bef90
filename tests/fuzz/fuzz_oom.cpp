/// Any text through the parser of out-of-memory messages: facts whose sums and findings can be had.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "membudget/diagnosis.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace membudget;
    const Dimensions dimensions{
        .named = {{"tokens", 4096}, {"vocabulary", 128'256}, {"hidden", 4096}, {"heads", 32}},
        .tensors = {{"model.layers.0.mlp.gate_proj (activations/mlp)", Bytes(117'440'512)}}};
    for (const OomMessage& message :
         parse_oom(std::string_view(reinterpret_cast<const char*>(data), size))) {
        try {
            static_cast<void>(reserved_of(message));
            static_cast<void>(outside_of(message));
            const auto findings = diagnose(message, dimensions);
            if (findings.empty()) std::abort();
            for (const Finding& finding : findings)
                if (finding.evidence.empty()) std::abort();
        } catch (const OverflowError&) {
            // Sizes that no sum can hold.
        }
    }
    return 0;
}
