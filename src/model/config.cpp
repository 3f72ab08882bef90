#include "model/config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

namespace membudget {
namespace {

const KeyTree& empty_object() {
    static const KeyTree empty = KeyTree::object();
    return empty;
}

/// A class default: the few forms of JSON that defaults have.
KeyTree parse_default(std::string_view text) {
    if (text.empty() || text == "null") return {};
    if (text == "true" || text == "false") return KeyTree(text == "true");
    if (text.front() == '[') {
        std::vector<KeyTree> items;
        std::string_view rest = text.substr(1, text.size() - 2);
        while (!rest.empty()) {
            const std::size_t comma = rest.find(',');
            items.push_back(parse_default(rest.substr(0, comma)));
            if (comma == std::string_view::npos) break;
            rest.remove_prefix(comma + 1);
        }
        return KeyTree::array(std::move(items));
    }
    const bool numeric = text.front() == '-' || (text.front() >= '0' && text.front() <= '9');
    if (!numeric) return KeyTree(text);
    const std::string copy(text);
    if (text.find_first_of(".e") != std::string_view::npos)
        return KeyTree::number(std::strtod(copy.c_str(), nullptr), copy);
    return KeyTree(static_cast<std::int64_t>(std::strtoll(copy.c_str(), nullptr, 10)));
}

struct ActName {
    std::string_view name;
    Act act;
};
/// Names of `transformers.activations.ACT2FN` that models use. Approximations that run as one
/// kernel of the same memory behaviour share a row's value.
constexpr ActName kActs[] = {
    {"silu", Act::silu},           {"swish", Act::silu},
    {"gelu", Act::gelu},           {"gelu_new", Act::gelu_new},
    {"gelu_fast", Act::gelu_new},  {"gelu_pytorch_tanh", Act::gelu_tanh},
    {"gelu_python_tanh", Act::gelu_new}, {"quick_gelu", Act::quick_gelu},
    {"relu", Act::relu},           {"relu2", Act::relu2},
    {"tanh", Act::tanh},           {"sigmoid", Act::sigmoid},
};

}  // namespace

std::vector<ConfigKey> config_keys(std::string_view keys) {
    std::vector<ConfigKey> out;
    while (!keys.empty()) {
        const std::size_t end = std::min(keys.find(' '), keys.size());
        const std::string_view entry = keys.substr(0, end);
        keys.remove_prefix(std::min(end + 1, keys.size()));
        if (entry.empty()) continue;
        const std::size_t equals = entry.find('=');
        ConfigKey key;
        key.names = entry.substr(0, equals);
        if (equals != std::string_view::npos) {
            key.has_default = true;
            key.default_text = entry.substr(equals + 1);
        }
        out.push_back(key);
    }
    return out;
}

ConfigReader ConfigReader::nested(std::string_view key, std::string_view class_name,
                                  std::string_view keys) {
    const KeyTree* value = raw(key);
    if (value != nullptr && !value->is(KeyTree::Kind::object)) {
        wrong_type(key, "an object", *value);
        value = nullptr;
    }
    return {value != nullptr ? *value : empty_object(), pointer_of(key), class_name, keys,
            diagnostics_};
}

ConfigKey ConfigReader::known(std::string_view key) const {
    for (const ConfigKey& entry : config_keys(keys_))
        if (entry.name() == key) return entry;
    throw InternalError(fmt::format("the keys of '{}' do not list '{}'", class_name_, key));
}

bool ConfigReader::knows(std::string_view key) const {
    for (const ConfigKey& entry : config_keys(keys_))
        if (entry.name() == key) return true;
    return false;
}

ConfigReader::Found ConfigReader::locate(std::string_view key) const {
    std::string_view names = known(key).names;
    while (!names.empty()) {
        const std::size_t end = std::min(names.find('|'), names.size());
        const std::string_view name = names.substr(0, end);
        if (const KeyTree* value = tree_.find(name)) return {value, name};
        names.remove_prefix(std::min(end + 1, names.size()));
    }
    return {nullptr, key};
}

const KeyTree* ConfigReader::raw(std::string_view key) const {
    const KeyTree* value = locate(key).value;
    return value == nullptr || value->is_null() ? nullptr : value;
}

KeyTree ConfigReader::resolve(std::string_view key) {
    if (const KeyTree* value = locate(key).value) return *value;
    const ConfigKey entry = known(key);
    return entry.has_default ? parse_default(entry.default_text) : KeyTree();
}

std::string ConfigReader::pointer_of(std::string_view key) const {
    return pointer_child(pointer_, locate(key).key);
}

void ConfigReader::invalid(std::string_view key, std::string message, std::string hint) {
    diagnostics_.invalid(pointer_of(key), std::move(message), std::move(hint));
}

void ConfigReader::unsupported(std::string_view key, std::string message, std::string hint) {
    diagnostics_.unsupported(pointer_of(key), std::move(message), std::move(hint));
}

void ConfigReader::wrong_type(std::string_view key, std::string_view expected,
                              const KeyTree& got) {
    invalid(key, fmt::format("expected {}; got {}", expected, got.describe()));
}

std::optional<std::int64_t> ConfigReader::integer(std::string_view key, std::int64_t least,
                                                  std::int64_t largest) {
    const bool defaulted = !has(key);
    const KeyTree value = resolve(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is(KeyTree::Kind::integer) || value.integer() < least) {
        wrong_type(key, least > 0 ? "a positive integer" : "an integer of at least 0", value);
        return least;
    }
    if (value.integer() > largest) {
        invalid(key, fmt::format("expected at most {}; got {}", largest, value.integer()));
        return least;
    }
    if (defaulted)
        notes_.push_back(fmt::format("{} = {}: absent from the config, the default of {}", key,
                                     value.integer(), class_name_));
    return value.integer();
}

std::int64_t ConfigReader::size(std::string_view key, std::int64_t largest) {
    if (const auto value = integer(key, 1, largest)) return *value;
    if (has(key))
        invalid(key, "expected a positive integer; got null");
    else
        diagnostics_.invalid(
            pointer_, fmt::format("expected the key '{}', for which {} has no default; got none",
                                  key, class_name_));
    return 1;
}

std::int64_t ConfigReader::size_or(std::string_view key, std::int64_t derived,
                                   std::int64_t largest) {
    return integer(key, 1, largest).value_or(derived);
}

std::int64_t ConfigReader::count_or(std::string_view key, std::int64_t derived,
                                    std::int64_t largest) {
    return integer(key, 0, largest).value_or(derived);
}

bool ConfigReader::flag(std::string_view key, bool derived) {
    const KeyTree value = resolve(key);
    if (value.is_null()) return derived;
    if (!value.is(KeyTree::Kind::boolean)) {
        wrong_type(key, "true or false", value);
        return derived;
    }
    return value.boolean();
}

double ConfigReader::number(std::string_view key, double derived) {
    const KeyTree value = resolve(key);
    if (value.is_null()) return derived;
    const bool numeric = value.is(KeyTree::Kind::integer) || value.is(KeyTree::Kind::number);
    if (!numeric || !std::isfinite(value.number())) {
        wrong_type(key, "a number", value);
        return derived;
    }
    return value.number();
}

double ConfigReader::number_in(std::string_view key, std::string_view inner, double derived) {
    const KeyTree* object = raw(key);
    const KeyTree* value = object != nullptr ? object->find(inner) : nullptr;
    if (value == nullptr || value->is_null()) return derived;
    const bool numeric = value->is(KeyTree::Kind::integer) || value->is(KeyTree::Kind::number);
    if (numeric && std::isfinite(value->number())) return value->number();
    diagnostics_.invalid(pointer_child(pointer_of(key), inner),
                         fmt::format("expected a number; got {}", value->describe()));
    return derived;
}

double ConfigReader::probability(std::string_view key) {
    const double value = number(key);
    if (value >= 0 && value <= 1) return value;
    wrong_type(key, "a probability from 0 to 1", resolve(key));
    return 0;
}

std::string ConfigReader::text(std::string_view key, std::string_view derived) {
    const KeyTree value = resolve(key);
    if (value.is_null()) return std::string(derived);
    if (!value.is(KeyTree::Kind::string)) {
        wrong_type(key, "a string", value);
        return std::string(derived);
    }
    return value.text();
}

Act ConfigReader::activation(std::string_view key) {
    const KeyTree value = resolve(key);
    if (!value.is(KeyTree::Kind::string)) {
        wrong_type(key, "the name of an activation function", value);
        return Act::silu;
    }
    std::vector<std::string_view> names;
    for (const ActName& row : kActs) {
        if (row.name == value.text()) return row.act;
        names.push_back(row.name);
    }
    unsupported(key, fmt::format("expected a known activation function; got {}", value.describe()),
                did_you_mean(value.text(), names));
    return Act::silu;
}

std::vector<std::int64_t> ConfigReader::sizes(std::string_view key) {
    const KeyTree value = resolve(key);
    std::vector<std::int64_t> out;
    if (value.is_null()) return out;
    if (!value.is(KeyTree::Kind::array)) {
        wrong_type(key, "a list of integers", value);
        return out;
    }
    for (std::size_t i = 0; i < value.items().size(); ++i) {
        const KeyTree& item = value.items()[i];
        if (!item.is(KeyTree::Kind::integer) || item.integer() < 0 ||
            item.integer() > kLargestWidth) {
            diagnostics_.invalid(pointer_child(pointer_of(key), i),
                                 fmt::format("expected an integer from 0 to {}; got {}",
                                             kLargestWidth, item.describe()));
            continue;
        }
        out.push_back(item.integer());
    }
    return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> ConfigReader::pairs(std::string_view key) {
    const KeyTree value = resolve(key);
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    if (value.is_null()) return out;
    const auto number = [](const KeyTree& tree) {
        return tree.is(KeyTree::Kind::integer) && tree.integer() >= 1 && tree.integer() <= kLargestCount;
    };
    const auto pair = [&](const KeyTree& tree) {
        return tree.is(KeyTree::Kind::array) && tree.items().size() == 2 && number(tree.items()[0]) &&
               number(tree.items()[1]);
    };
    if (!value.is(KeyTree::Kind::array) || !std::all_of(value.items().begin(), value.items().end(), pair)) {
        wrong_type(key, "a list of pairs of positive integers", value);
        return out;
    }
    for (const KeyTree& item : value.items()) out.emplace_back(item.items()[0].integer(), item.items()[1].integer());
    return out;
}

Extent ConfigReader::extent(std::string_view key) {
    if (!resolve(key).is(KeyTree::Kind::array)) {
        const std::int64_t side = size(key, kLargestCount);
        return {side, side};
    }
    const std::vector<std::int64_t> sides = sizes(key);
    const auto fits = [](std::int64_t side) { return side >= 1 && side <= kLargestCount; };
    if (sides.size() == 2 && fits(sides[0]) && fits(sides[1])) return {sides[0], sides[1]};
    wrong_type(key, "a positive integer or a list of two", resolve(key));
    return {};
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
    const KeyTree value = resolve(key);
    std::vector<std::string> out;
    if (value.is_null()) return out;
    if (!value.is(KeyTree::Kind::array)) {
        wrong_type(key, "a list of strings", value);
        return out;
    }
    for (std::size_t i = 0; i < value.items().size(); ++i) {
        const KeyTree& item = value.items()[i];
        if (!item.is(KeyTree::Kind::string)) {
            diagnostics_.invalid(pointer_child(pointer_of(key), i),
                                 fmt::format("expected a string; got {}", item.describe()));
            continue;
        }
        out.push_back(item.text());
    }
    return out;
}

bool ConfigReader::divides(std::string_view key, std::int64_t whole, std::string_view parts_key,
                           std::int64_t parts) {
    if (whole % parts == 0) return true;
    // One of them may be the harmless stand-in for a value that was reported already.
    if (diagnostics_.empty())
        invalid(key, fmt::format("expected a multiple of {} ({}); got {}", parts_key, parts,
                                 whole));
    return false;
}

}  // namespace membudget
