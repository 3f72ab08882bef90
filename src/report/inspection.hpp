#pragma once

/// What a model consists of, for the dialects of `inspect`.

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "membudget/model.hpp"
#include "membudget/quantity.hpp"

namespace membudget::report {

/// Every component, in the order in which reports list them.
inline constexpr std::array kComponents{
    Component::embedding, Component::attention, Component::mlp,    Component::experts,
    Component::router,    Component::norm,      Component::head,   Component::vision,
    Component::other};

/// Tensors of one name but for their indices ("model.layers.{}.mlp.up_proj.weight") and one shape.
struct TensorGroup {
    std::string name;
    std::vector<std::int64_t> shape;
    std::string tied_to;         ///< empty for storage of its own
    std::int64_t tensors = 0;
    Elements elements;           ///< of all of them together
};

/// What belongs to one component.
struct ComponentCounts {
    Component component = Component::other;
    std::int64_t tensors = 0;
    Elements total, untied, trainable;   ///< as in `ParameterCounts`
    std::vector<TensorGroup> groups;     ///< largest first
};

/// The components that `model` has, in the order of `kComponents`.
[[nodiscard]] std::vector<ComponentCounts> components_of(const Model& model);

/// What the model's tensors hold in one type; a tied tensor counts once.
struct HeldBytes {
    const Dtype* dtype = nullptr;
    std::int64_t tensors = 0;
    Bytes bytes;
};
/// The types in which the parameters are held, in the order of first use. What has no type of its own
/// is in the type that the config names, else in fp32.
[[nodiscard]] std::vector<HeldBytes> held_bytes(const Model& model);

/// Calls `visit` for every tensor in execution order, the index of its layer filled in. Both names
/// are full ones; `tied_to` is the name of the tensor whose storage it shares, or empty.
void for_each_tensor(const Model& model,
                     const std::function<void(const std::string& name, const std::string& tied_to,
                                              const std::string& checkpoint_name,
                                              const Parameter& parameter)>& visit);

/// The type that the config names for the weights; null when it names none that is known.
[[nodiscard]] const Dtype* dtype_of(const Model& model);

/// "[4096, 14336]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace membudget::report
