/// Any bytes through the JSON parser and the spec reader: a spec, or diagnostics that can be
/// printed.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "membudget/spec.hpp"

namespace {

using namespace membudget;

void require(bool condition) {
    if (!condition) std::abort();
}

void check(const Diagnostics& errors) {
    require(!errors.empty());
    for (const Diagnostic& one : errors.list()) {
        require(one.file == "fuzz.json");
        require(one.pointer.empty() || one.pointer.front() == '/');
        require(!one.message.empty() && one.message.back() != '.');
        // What is quoted in a message is safe to print.
        for (const char c : one.message + one.hint)
            require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Result<KeyTree> kept = parse_json(text, "fuzz.json", DuplicateKeys::keep);
    const Result<KeyTree> strict = parse_json(text, "fuzz.json", DuplicateKeys::refuse);
    const Result<KeyTree> folded = parse_json(text, "fuzz.json", DuplicateKeys::last_wins);
    require(kept.ok() == folded.ok());
    require(kept.ok() || !strict.ok());
    if (!strict) check(strict.errors());
    if (!kept) return 0;

    const Result<Spec> spec = read_spec(*kept, "fuzz.json");
    if (!spec)
        check(spec.errors());
    else
        // Repeated keys are a mistake whoever reports them.
        require(strict.ok() && recognise(*kept) == InputKind::spec);
    return 0;
}
