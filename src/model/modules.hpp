#pragma once

/// A model seen as a framework's tree of modules, and rewritten layer by layer: what adapters, freezing
/// and quantization have in common.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/model.hpp"

namespace membudget {

/// What kind of module holds parameters: adapters and quantization know some of them only.
enum class ModuleKind {
    linear,      ///< weight of out x in
    convolution, ///< weight of out x in / groups x kernel
    transposed,  ///< a linear module whose weight is in x out (Conv1D of GPT-2)
    embedding,   ///< weight of entries x width
    other,
};

/// A module of a block that holds parameters itself.
struct Module {
    std::string path;  ///< within the block: "self_attn.q_proj"
    ModuleKind kind = ModuleKind::other;
    std::vector<std::size_t> parameters;  ///< indices into the block's
    std::size_t weight = 0;               ///< the one named "weight", where there is one
    std::int64_t in = 0, out = 0;         ///< of a linear module; entries and width of an embedding
    std::int64_t groups = 1;              ///< of a convolution
    std::vector<std::int64_t> kernel;     ///< of a convolution: its extents
};

/// The modules of `block`, in the order of their first parameters; of a model of `family`.
[[nodiscard]] std::vector<Module> modules_of(const Block& block, std::string_view family);

/// Path of the module that holds the parameter `name`, and the parameter's own name in it.
[[nodiscard]] std::pair<std::string_view, std::string_view> split_name(std::string_view name);
/// The last part of a dotted name.
[[nodiscard]] std::string_view last_part(std::string_view path);

/// `name` with the index of its layer filled in.
[[nodiscard]] std::string with_layer(std::string_view name, std::int64_t index);

/// The module whose output are the logits of a language model (`get_output_embeddings`), by full name;
/// empty where the class has none.
[[nodiscard]] std::string output_embedding_of(const Model& model);

/// What is decided about one layer: a number per module or parameter. Layers with equal decisions
/// share a block.
using Decision = std::vector<std::int64_t>;
using Decide = std::function<Decision(const Block& block, const std::string& prefix)>;
using Change = std::function<void(Block& block, const std::string& prefix, const Decision& decision)>;

/// Whether decisions may differ between the layers of a section.
enum class Layers {
    apart,  ///< each is asked about
    alike,  ///< no name by which modules are chosen has an index in it: the first one speaks for all
};

/// Whether the text, where it is part of a module's name, may be part of a layer's index.
[[nodiscard]] bool has_digit(std::string_view text);

/// Decides for every layer of `model` and changes its block accordingly. `prefix` has the layer's index
/// for `decide` and `{}` for `change`, which follows at once where it does. Layers of a section that are changed differently become sections
/// of their own.
void rewrite_layers(Model& model, Layers layers, const Decide& decide, const Change& change);

/// Which name of a storage decides whether it is trained.
enum class TiedTraining {
    as_owner,  ///< that of the parameter that has it
    as_any,    ///< all of them: it is trained under any name
};
/// Makes tied parameters agree with those whose storage they share, after names and `trainable` changed.
/// `renamed` maps full names, with `{}`, of parameters that have another name now.
void settle_ties(Model& model, const std::vector<std::pair<std::string, std::string>>& renamed,
                 TiedTraining rule = TiedTraining::as_owner);

}  // namespace membudget
