// The spec's `allocator`: the text of PYTORCH_ALLOC_CONF, or its keys with JSON values.

#include "job/resolver.hpp"

namespace membudget {

namespace {

/// A value as PYTORCH_ALLOC_CONF spells it.
std::string spelled(const KeyTree& value) {
    switch (value.kind()) {
        case KeyTree::Kind::boolean: return value.boolean() ? "True" : "False";
        case KeyTree::Kind::integer: return std::to_string(value.integer());
        default: return value.text();
    }
}

}  // namespace

void Resolver::allocator() {
    std::string all;
    for (const auto& [key, value] : spec_.allocator) {
        // The spec gives one text for all, or values by name.
        if (key.empty() && spec_.allocator.size() == 1 && value.is(KeyTree::Kind::string)) {
            all = value.text();
            break;
        }
        const std::string pointer = pointer_child("/allocator", key);
        if (value.is(KeyTree::Kind::array) || value.is(KeyTree::Kind::object) || value.is_null()) {
            problems_.invalid(pointer, "expected a value as PYTORCH_ALLOC_CONF has it; got " + value.describe(),
                              R"(a list is a string: "[256:1,512:2,>:4]")");
            continue;
        }
        const std::string pair = key + ":" + spelled(value);
        const auto one = parse_allocator_settings(pair);
        if (!one) {
            for (Diagnostic why : one.errors().list()) {
                if (why.message.starts_with(key + ": ")) why.message.erase(0, key.size() + 2);
                why.pointer = pointer;
                problems_.add(std::move(why));
            }
            continue;
        }
        all += pair + ",";
    }
    // Settings that are right one by one may contradict each other.
    auto together = parse_allocator_settings(all);
    if (together) {
        job_.allocator = std::move(*together);
        return;
    }
    for (Diagnostic why : together.errors().list()) {
        why.pointer = "/allocator";
        problems_.add(std::move(why));
    }
}

}  // namespace membudget
