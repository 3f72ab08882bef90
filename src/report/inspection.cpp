#include "report/inspection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace membudget::report {
namespace {

constexpr std::string_view kIndex = "{}";

std::string with_index(std::string name, std::int64_t index) {
    if (const auto at = name.find(kIndex); at != std::string::npos)
        name.replace(at, kIndex.size(), std::to_string(index));
    return name;
}

/// The name with `{}` for every index, so that what repeats falls together.
std::string without_indices(std::string_view name) {
    std::string out;
    while (true) {
        const std::size_t end = std::min(name.find('.'), name.size());
        const std::string_view part = name.substr(0, end);
        const bool index = !part.empty() &&
                           part.find_first_not_of("0123456789") == std::string_view::npos;
        out += index ? kIndex : part;
        if (end == name.size()) return out;
        out += '.';
        name.remove_prefix(end + 1);
    }
}

void add(ComponentCounts& counts, const std::string& name, const Parameter& parameter,
         std::int64_t copies) {
    const Elements elements = parameter.elements() * copies;
    counts.tensors += copies;
    counts.untied += elements;
    if (parameter.tied_to.empty()) {
        counts.total += elements;
        if (parameter.trainable) counts.trainable += elements;
    }
    const std::string pattern = without_indices(name);
    const auto same = std::find_if(
        counts.groups.begin(), counts.groups.end(), [&](const TensorGroup& group) {
            return group.name == pattern && group.shape == parameter.shape &&
                   group.tied_to == parameter.tied_to;
        });
    if (same == counts.groups.end()) {
        counts.groups.push_back({pattern, parameter.shape, parameter.tied_to, copies, elements});
    } else {
        same->tensors += copies;
        same->elements += elements;
    }
}

}  // namespace

std::vector<ComponentCounts> components_of(const Model& model) {
    std::vector<ComponentCounts> out;
    for (const Component component : kComponents) {
        ComponentCounts counts;
        counts.component = component;
        model.for_each_parameter([&](const std::string& name, const Parameter& parameter,
                                     std::int64_t copies) {
            if (parameter.component == component) add(counts, name, parameter, copies);
        });
        std::stable_sort(counts.groups.begin(), counts.groups.end(),
                         [](const TensorGroup& a, const TensorGroup& b) {
                             return a.elements > b.elements;
                         });
        if (counts.tensors > 0) out.push_back(std::move(counts));
    }
    return out;
}

std::vector<HeldBytes> held_bytes(const Model& model) {
    const Dtype* own = dtype_of(model);
    std::vector<HeldBytes> out;
    const auto hold = [&](const Dtype& type, std::int64_t copies, Bytes bytes) {
        auto same = std::find_if(out.begin(), out.end(), [&](const HeldBytes& h) { return h.dtype == &type; });
        if (same == out.end()) same = out.insert(out.end(), {&type, 0, Bytes(0)});
        same->tensors += copies;
        same->bytes += bytes * copies;
    };
    model.for_each_parameter([&](const std::string&, const Parameter& parameter, std::int64_t copies) {
        if (!parameter.tied_to.empty()) return;
        for (const StoredTensor& tensor : parameter.stored) hold(*tensor.dtype, copies, tensor.bytes());
        if (!parameter.stored.empty()) return;
        const Dtype& type = parameter.dtype != nullptr ? *parameter.dtype : own != nullptr ? *own : dtype::fp32;
        hold(type, copies, parameter.bytes(type));
    });
    return out;
}

void for_each_tensor(const Model& model,
                     const std::function<void(const std::string&, const std::string&,
                                              const std::string&, const Parameter&)>& visit) {
    for (const Section& section : model.sections) {
        std::int64_t index = section.first_index;
        for (std::int64_t copy = 0; copy < section.count; ++copy)
            for (const int block : section.pattern) {
                for (const Parameter& parameter :
                     model.blocks[static_cast<std::size_t>(block)].parameters) {
                    if (section.prefix + parameter.name == parameter.tied_to) continue;  // another block's
                    visit(with_index(section.prefix + parameter.name, index),
                          with_index(parameter.tied_to, index),
                          with_index(parameter.checkpoint_name, index), parameter);
                }
                ++index;
            }
    }
}

const Dtype* dtype_of(const Model& model) {
    struct Name {
        std::string_view torch, ours;
    };
    constexpr Name kNames[] = {
        {"float64", "fp64"}, {"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
    std::string_view name = model.facts.torch_dtype;
    constexpr std::string_view kModule = "torch.";
    if (name.starts_with(kModule)) name.remove_prefix(kModule.size());
    for (const Name& row : kNames)
        if (row.torch == name) return dtypes().find(row.ours);
    return nullptr;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace membudget::report
