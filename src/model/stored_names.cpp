#include "model/stored_names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace membudget {
namespace {

/// What the class calls `in_class`, a file calls `on_disk`.
struct Rename {
    std::string_view in_class;
    std::string_view on_disk;
    bool at_start = false;  ///< only at the start of a name
};

std::vector<Rename> renames_of(std::string_view rules) {
    std::vector<Rename> out;
    while (!rules.empty()) {
        const std::size_t end = std::min(rules.find(' '), rules.size());
        const std::string_view rule = rules.substr(0, end);
        rules.remove_prefix(std::min(end + 1, rules.size()));
        const std::size_t equals = rule.find('=');
        MEMBUDGET_ENSURE(equals != rule.npos, "a rule of stored names is CLASS=FILE");
        Rename rename{rule.substr(0, equals), rule.substr(equals + 1)};
        rename.at_start = rename.in_class.starts_with('^');
        if (rename.at_start) rename.in_class.remove_prefix(1);
        out.push_back(rename);
    }
    return out;
}

void replace_first(std::string& text, std::string_view from, std::string_view to) {
    if (const std::size_t at = text.find(from); at != std::string::npos)
        text.replace(at, from.size(), to);
}

std::string on_disk(std::string name, const std::vector<Rename>& renames,
                    const std::vector<std::int64_t>& shape) {
    for (const Rename& rename : renames)
        if (!rename.at_start || name.starts_with(rename.in_class))
            replace_first(name, rename.in_class, rename.on_disk);
    if (!shape.empty()) replace_first(name, "{E}", fmt::format("{{0..{}}}", shape.front() - 1));
    return name;
}

/// Ranges of a name in braces: "{0..7}", "{w1,w3}".
struct Braces {
    std::size_t begin = std::string_view::npos, end = std::string_view::npos;
    [[nodiscard]] bool found() const { return end != std::string_view::npos; }
};

Braces find_braces(std::string_view name) {
    const std::size_t begin = name.find('{');
    return {begin, begin == name.npos ? begin : name.find('}', begin)};
}

std::vector<std::string_view> alternatives(std::string_view text) {
    std::vector<std::string_view> out;
    for (std::size_t end = 0; end != text.npos; text.remove_prefix(end + 1)) {
        end = text.find(',');
        out.push_back(text.substr(0, end));
        if (end == text.npos) break;
    }
    return out;
}

}  // namespace

std::vector<StoredPiece> stored_pieces(std::string_view checkpoint_name,
                                       const std::vector<std::int64_t>& shape) {
    std::string name(checkpoint_name);
    Braces braces = find_braces(name);
    if (!braces.found()) return {{std::move(name), shape, 1}};
    StoredPiece piece{{}, shape, 1};
    // Of a stack the parts are of each of its matrices.
    std::size_t divided = shape.size() == 3 ? 1 : 0;
    if (name.find("..", braces.begin) < braces.end) {  // a range of experts, each with a slice
        MEMBUDGET_ENSURE(shape.size() == 3, "a stack of experts has three dimensions");
        name.replace(braces.begin, braces.end - braces.begin + 1, "*");
        piece.count = shape.front();
        piece.shape.erase(piece.shape.begin());
        divided = 0;
        braces = find_braces(name);
    }
    if (!braces.found()) return {{std::move(name), std::move(piece.shape), piece.count}};
    const std::string inside = name.substr(braces.begin + 1, braces.end - braces.begin - 1);
    const std::vector<std::string_view> names = alternatives(inside);
    piece.shape[divided] /= static_cast<std::int64_t>(names.size());
    std::vector<StoredPiece> out;
    for (const std::string_view part : names) {
        piece.name = name;
        piece.name.replace(braces.begin, braces.end - braces.begin + 1, part);
        out.push_back(piece);
    }
    return out;
}

void set_checkpoint_names(const Family& family, Model& model) {
    if (family.stored_names.empty()) return;
    const std::vector<Rename> renames = renames_of(family.stored_names);
    for (const Section& section : model.sections)
        for (const int index : section.pattern)
            for (Parameter& parameter : model.blocks[static_cast<std::size_t>(index)].parameters) {
                const std::string name = section.prefix + parameter.name;
                std::string stored = on_disk(name, renames, parameter.shape);
                if (stored != name) parameter.checkpoint_name = std::move(stored);
            }
}

}  // namespace membudget
