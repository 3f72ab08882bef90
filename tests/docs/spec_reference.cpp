// docs/spec.md, generated from the tables that read a spec, and checked to be what they say.
//
//     spec_reference [--update]

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "membudget/spec.hpp"

namespace {

std::string page() {
    std::string text =
        "<!-- Generated: cmake --build build --target update_spec_reference -->\n\n"
        "# Spec reference\n\n"
        "A spec is a JSON object. Unknown and duplicate keys are errors. Sizes are integers of bytes or strings\n"
        "with a unit (`\"80GB\"`, `\"1.5GiB\"`). Paths are relative to the spec. Names are rows of tables:\n"
        "`membudget list KIND` prints them.\n\n"
        "| key | value | meaning |\n|---|---|---|\n";
    for (const membudget::SpecKey& key : membudget::spec_keys()) {
        std::string type = key.type;
        for (std::size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2) type.insert(at, "\\");
        std::string doc = key.doc;
        for (std::size_t at = 0; (at = doc.find('|', at)) != std::string::npos; at += 2) doc.insert(at, "\\");
        text += fmt::format("| `{}` | {} | {} |\n", key.pointer, type, doc);
    }
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string path = std::string(MEMBUDGET_SOURCE_DIR) + "/docs/spec.md";
    const std::string now = page();
    if (argc > 1 && std::string(argv[1]) == "--update") {
        std::ofstream(path, std::ios::binary) << now;
        return 0;
    }
    std::ifstream in(path, std::ios::binary);
    std::ostringstream committed;
    committed << in.rdbuf();
    if (committed.str() == now) return 0;
    fmt::print("docs/spec.md is not what the tables say: build target update_spec_reference, review the diff\n");
    return 1;
}
