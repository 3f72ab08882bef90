#pragma once

/// Regular expressions over module names, as PEFT's configs hold them (Python's `re`). A pattern
/// becomes a small automaton that is simulated state by state, so that no pattern can take more than
/// pattern x name steps. Alternation, groups, classes, repetition and anchors are known; look-around
/// and back-references are not.

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/support.hpp"

namespace membudget {

class NamePattern {
public:
    /// The error says what was expected, without a pointer; what `re` knows and this does not is
    /// `Trouble::unsupported`.
    static Result<NamePattern> parse(std::string_view text);
    /// The whole of `name` matches, as `re.fullmatch`.
    [[nodiscard]] bool matches(std::string_view name) const;

    using Characters = std::bitset<256>;
    struct Step {
        enum class Kind { character, split, jump, begin, end, match };
        Kind kind = Kind::match;
        Characters characters;
        std::size_t to = 0, other = 0;  ///< targets of a jump or a split
    };

private:
    explicit NamePattern(std::vector<Step> steps);
    std::vector<Step> steps_;
    std::string tail_;  ///< what every name that matches ends with
};

/// True when `name` is `suffix` or ends with a dot and `suffix`: how PEFT compares names of modules.
[[nodiscard]] bool is_module_suffix(std::string_view name, std::string_view suffix);

/// True when `*` in `pattern` can be replaced so that it is `name`.
[[nodiscard]] bool matches_wildcard(std::string_view pattern, std::string_view name);

}  // namespace membudget
