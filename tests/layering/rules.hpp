#pragma once

/// The rules of the source tree that no compiler checks:
///
/// - an include points up the list of parts; private headers stay in their part
/// - the core never prints, exits or aborts; only `cli` does
/// - each library stays in the parts that may know it, and out of public headers
/// - sources are ASCII
/// - a part is one public header, one source folder and one test folder, every source listed

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace layering {

struct Findings {
    std::vector<std::string> violations;  ///< "src/spec/x.cpp: line 3: not ASCII", sorted
    std::vector<std::string> notes;       ///< what wants a reason but breaks no rule: long files
};

/// Looks at `include`, `src` and `tests` below `root`.
[[nodiscard]] Findings check_tree(const std::filesystem::path& root);

/// The parts in order; an include may only point up this list. `membudget` is the facade.
[[nodiscard]] std::span<const std::string_view> parts();

}  // namespace layering
