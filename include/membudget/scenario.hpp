#pragma once

/// Part `scenario`: named pure changes of a spec, JSON merge patches, and what a changed knob means.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/job.hpp"
#include "membudget/ledger.hpp"
#include "membudget/spec.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// RFC 7396: `patch` applied to `target`.
[[nodiscard]] KeyTree merge_patch(KeyTree target, const KeyTree& patch);

/// A technique: the knob that turns it, the one term it changes, what it costs and where it ends.
struct Technique {
    std::string_view name;      ///< "activation_checkpointing"
    std::string_view pointer;   ///< knob in the spec: "/training/activation_checkpointing"
    std::string_view term;      ///< first path component or leaf it targets: "activations"
    std::string_view cost;      ///< no technique is free
    std::string_view limits;
    std::string_view measure;   ///< what to measure again after turning it
    /// Terms that it lowers beside the first, and which may be live where that is gone; or empty.
    std::array<std::string_view, 2> also = {};
    /// The phases whose peak it can lower: bit i for Phase i.
    unsigned phases = 0;
    [[nodiscard]] constexpr bool reaches(Phase phase) const {
        return (phases >> static_cast<unsigned>(phase) & 1U) != 0;
    }
    /// Whether a change of the knob from `from` to `to` (null: absent) turns the technique on;
    /// several techniques share a knob and differ by its value.
    bool (*turned_on)(const KeyTree* from, const KeyTree* to) = nullptr;
    /// A built-in scenario: the merge patch that turns the knob for this spec and job, or null when
    /// it is turned already or has no meaning here.
    std::optional<KeyTree> (*patch)(const KeyTree& spec, const Job& job) = nullptr;
    std::string_view doc;
    std::string_view source;
};
[[nodiscard]] Table<Technique> techniques();

/// A merge patch that sets the one value at `pointer` (object keys only).
[[nodiscard]] KeyTree patch_at(std::string_view pointer, KeyTree value);
/// The value at an RFC 6901 pointer, or null when there is none.
[[nodiscard]] const KeyTree* value_at(const KeyTree& tree, std::string_view pointer);

/// A pointer whose value differs between two documents, with both values as text.
struct KnobChange {
    std::string pointer;
    std::string from, to;               ///< JSON text; "absent" when missing
    const Technique* technique = nullptr;
};
/// Leaves that differ, in document order of `to`, then of `from`; `/name` and `/scenarios` excluded.
[[nodiscard]] std::vector<KnobChange> changed_knobs(const KeyTree& from, const KeyTree& to);

/// Compact JSON text of a tree.
[[nodiscard]] std::string to_json(const KeyTree& tree);

}  // namespace membudget
