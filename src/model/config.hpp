#pragma once

/// Reads the keys of a model's config as its configuration class would: synonyms, class defaults,
/// nested configs, and the difference between a key that is absent and one that is null.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/model.hpp"
#include "membudget/spec.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// Largest sizes of one dimension; beyond them a config is a mistake. Products of two dimensions
/// stay far from overflow, and `build_model` bounds the whole.
inline constexpr std::int64_t kLargestWidth = std::int64_t{1} << 24;
inline constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 28;
inline constexpr std::int64_t kLargestCount = std::int64_t{1} << 16;

/// One entry of a class's keys: `name|synonym|...=default`.
struct ConfigKey {
    std::string_view names;         ///< canonical name, then synonyms, separated by '|'
    std::string_view default_text;  ///< JSON; meaningful when `has_default`
    bool has_default = false;

    [[nodiscard]] std::string_view name() const { return names.substr(0, names.find('|')); }
};
/// Entries of a list of keys such as `Family::keys`.
[[nodiscard]] std::vector<ConfigKey> config_keys(std::string_view keys);

/// Height and width of an image or a patch.
struct Extent {
    std::int64_t height = 1, width = 1;
};

/// Reads one object. Every mistake becomes a diagnostic with its pointer, and reading goes on with
/// a harmless value, so that all mistakes of a config are found in one run.
class ConfigReader {
public:
    /// `keys` lists what the class knows, with defaults; asking for another key is a defect.
    ConfigReader(const KeyTree& tree, std::string pointer, std::string_view class_name,
                 std::string_view keys, Diagnostics& diagnostics)
        : tree_(tree), pointer_(std::move(pointer)), class_name_(class_name), keys_(keys),
          diagnostics_(diagnostics) {}

    /// The object `key` as a config of its own class; an empty one when absent or null.
    [[nodiscard]] ConfigReader nested(std::string_view key, std::string_view class_name,
                                      std::string_view keys);

    /// The same object read as another class.
    [[nodiscard]] ConfigReader as(std::string_view class_name, std::string_view keys) {
        return {tree_, pointer_, class_name, keys, diagnostics_};
    }

    /// True when the class has such a key; what it does not know it ignores, whatever the file says.
    [[nodiscard]] bool knows(std::string_view key) const;
    /// True when the file gives the key (null included), under any of its names.
    [[nodiscard]] bool has(std::string_view key) const { return locate(key).value != nullptr; }
    /// The value in the file, or null when it is absent or null.
    [[nodiscard]] const KeyTree* raw(std::string_view key) const;

    /// A dimension or a count, at least 1. No value and no default is an error.
    std::int64_t size(std::string_view key, std::int64_t largest = kLargestWidth);
    /// The same; `derived` when the file has no value (or null) and the class no default.
    std::int64_t size_or(std::string_view key, std::int64_t derived,
                         std::int64_t largest = kLargestWidth);
    /// A count that may be 0; `derived` when there is none.
    std::int64_t count_or(std::string_view key, std::int64_t derived,
                          std::int64_t largest = kLargestCount);
    bool flag(std::string_view key, bool derived = false);
    /// Finite; `derived` when absent or null without a default.
    double number(std::string_view key, double derived = 0);
    /// The member `inner` of the object `key`; `derived` when either is absent.
    double number_in(std::string_view key, std::string_view inner, double derived);
    /// A probability in [0, 1].
    double probability(std::string_view key);
    std::string text(std::string_view key, std::string_view derived = {});
    /// A name of `ACT2FN`.
    Act activation(std::string_view key);
    /// A list of integers >= 0 (possibly empty); empty when absent.
    std::vector<std::int64_t> sizes(std::string_view key);
    /// A list of lists of two positive integers.
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs(std::string_view key);
    /// One number for both sides, or a list of two.
    Extent extent(std::string_view key);
    /// A list of strings; empty when absent.
    std::vector<std::string> texts(std::string_view key);

    /// Reports a mistake in the value of `key`.
    void invalid(std::string_view key, std::string message, std::string hint = {});
    void unsupported(std::string_view key, std::string message, std::string hint = {});
    /// Reports when `whole` (of key) is not a multiple of `parts` (of another key).
    bool divides(std::string_view key, std::int64_t whole, std::string_view parts_key,
                 std::int64_t parts);

    [[nodiscard]] std::string pointer_of(std::string_view key) const;
    [[nodiscard]] Diagnostics& diagnostics() { return diagnostics_; }
    /// Structural keys that took their class's default, as sentences.
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
    /// Adds a sentence about something else that decided a size.
    void note(std::string text) { notes_.push_back(std::move(text)); }

private:
    struct Found {
        const KeyTree* value = nullptr;  ///< null: absent
        std::string_view key;            ///< under which it stands
    };
    [[nodiscard]] ConfigKey known(std::string_view key) const;
    [[nodiscard]] Found locate(std::string_view key) const;
    /// The value in the file or the class's default; a null kind means neither or null.
    [[nodiscard]] KeyTree resolve(std::string_view key);
    std::optional<std::int64_t> integer(std::string_view key, std::int64_t least,
                                        std::int64_t largest);
    void wrong_type(std::string_view key, std::string_view expected, const KeyTree& got);

    const KeyTree& tree_;
    std::string pointer_;
    std::string_view class_name_;
    std::string_view keys_;
    Diagnostics& diagnostics_;
    std::vector<std::string> notes_;
};

}  // namespace membudget
