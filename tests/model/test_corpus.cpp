/// Real configs against the counts and tensor lists of the frameworks' own classes: one line each.
/// They belong to other projects and are read from the folder that MEMBUDGET_CORPUS names.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "build.hpp"

using namespace membudget;

namespace {

KeyTree read_corpus(const std::string& path) {
    const auto text = read_text(path);
    REQUIRE(text.ok());
    auto tree = parse_json(*text, path, DuplicateKeys::last_wins);
    REQUIRE(tree.ok());
    return *tree;
}

/// Names with every index as `N`, so that layers of one shape fall together.
std::string pattern_of(std::string_view name) {
    std::string out;
    std::size_t start = 0;
    while (start <= name.size()) {
        const std::size_t end = std::min(name.find('.', start), name.size());
        const std::string_view part = name.substr(start, end - start);
        const bool index = part == "{}" || (!part.empty() && part.find_first_not_of("0123456789") ==
                                                                 std::string_view::npos);
        if (start > 0) out += '.';
        out += index ? "N" : std::string(part);
        start = end + 1;
    }
    return out;
}

using Tensors = std::map<std::pair<std::string, std::vector<std::int64_t>>, std::int64_t>;

Tensors tensors_of(const KeyTree& inventory) {
    Tensors out;
    for (const KeyTree& entry : inventory.find("tensors")->items()) {
        std::vector<std::int64_t> shape;
        for (const KeyTree& extent : entry.items()[2].items()) shape.push_back(extent.integer());
        out[{pattern_of(entry.items()[1].text()), shape}] += entry.items()[0].integer();
    }
    return out;
}

/// The name under which `inventory` may know a parameter: the inventory was made with classes some
/// of whose modules have been renamed since, mostly from the names in published files.
std::string known_name(const std::string& name, const Parameter& parameter, const Tensors& inventory) {
    const auto known = [&](const std::string& pattern) {
        return std::any_of(inventory.begin(), inventory.end(),
                           [&](const auto& entry) { return entry.first.first == pattern; });
    };
    const std::string own = pattern_of(name);
    if (known(own)) return own;
    constexpr std::string_view kTower = "model.vision_tower.";
    if (own.starts_with(kTower)) return "model.vision_tower.vision_model." + own.substr(kTower.size());
    const std::string stored = pattern_of(parameter.checkpoint_name);
    return known(stored) ? stored : own;
}

Tensors tensors_of(const Model& model, const Tensors& inventory) {
    Tensors out;
    struct Joined {
        std::string name;  ///< of the first piece; layers of several kinds have it again
        std::vector<std::int64_t> shape;
    };
    std::map<std::string, Joined> joined;  // pieces of one tensor of the inventory
    model.for_each_parameter(
        [&](const std::string& name, const Parameter& parameter, std::int64_t copies) {
            const std::string known = known_name(name, parameter, inventory);
            std::vector<std::int64_t> shape = parameter.shape;
            if (known == pattern_of(parameter.checkpoint_name)) {
                const auto [it, first] = joined.try_emplace(parameter.checkpoint_name, Joined{name, shape});
                if (!first && it->second.name != name) {
                    out.erase({known, it->second.shape});
                    it->second.shape.front() += shape.front();
                    shape = it->second.shape;
                }
            }
            out[{known, shape}] += copies;
        });
    return out;
}

/// The first tensor that one has and the other has not; tied names may be missing from `expected`.
std::string difference(const Tensors& got, const Tensors& expected, const Model& model) {
    for (const auto& [tensor, count] : expected) {
        const auto found = got.find(tensor);
        if (found == got.end() || found->second != count) return "differs in " + tensor.first;
    }
    std::map<std::string, bool> tied;
    model.for_each_parameter([&](const std::string& name, const Parameter& parameter, std::int64_t) {
        if (!parameter.tied_to.empty()) tied[known_name(name, parameter, expected)] = true;
    });
    for (const auto& [tensor, count] : got)
        if (expected.count(tensor) == 0 && tied.count(tensor.first) == 0)
            return "has one too many: " + tensor.first;
    return {};
}

/// Parameters that the counted class had and a later one, which the step follows, has not. GLM-5.2's 57 layers
/// without an indexer of their own had one then; the total published for its files is by as much less than GLM-5's.
std::int64_t left_out_since(const std::string& file) {
    return file == "configs/zai-org--GLM-5.2.json" ? 57 * (4096 * 2048 + (128 + 32) * 6144 + 2 * 128) : 0;
}

}  // namespace

TEST_CASE("counts and tensors of the corpus") {
    const char* corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) {
        std::puts("skipped: MEMBUDGET_CORPUS is not set");
        return;
    }
    const std::string folder = std::string(corpus) + "/";
    const KeyTree records = read_corpus(folder + "param_counts.json");
    const KeyTree inventory = read_corpus(folder + "tensor_inventory.json");
    int exact = 0;
    int unsupported = 0;
    for (const KeyTree& record : records.items()) {
        const std::string file = record.find("config_file")->text();
        const KeyTree config = read_corpus(folder + file);
        const auto model = build_model(config);
        if (!model.ok()) {
            // A config that we cannot read for a reason of our own is a failure, not a gap.
            CHECK_FALSE(model.errors().any_invalid());
            std::printf("%-70s unsupported: %s\n", file.c_str(),
                        errors_of(model.errors()).c_str());
            ++unsupported;
            continue;
        }
        const ParameterCounts counts = count_parameters(*model);
        INFO(file);
        const std::int64_t gone = left_out_since(file);
        CHECK(counts.total.count() == record.find("params_exact")->integer() - gone);
        CHECK(counts.untied.count() == record.find("params_untied_total")->integer() - gone);
        const KeyTree* tensors = gone > 0 ? nullptr : inventory.find(file.substr(file.rfind('/') + 1));
        if (tensors != nullptr) {
            const Tensors expected = tensors_of(*tensors);
            CHECK(difference(tensors_of(*model, expected), expected, *model) == "");
        }
        std::printf("%-70s %s %lld%s\n", file.c_str(), model->architecture.c_str(),
                    static_cast<long long>(counts.total.count()),
                    tensors != nullptr ? ", tensors agree" : "");
        ++exact;
    }
    std::printf("%d counted, %d unsupported of %zu\n", exact, unsupported, records.items().size());
    CHECK(exact > 0);
}
