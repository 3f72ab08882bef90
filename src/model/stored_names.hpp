#pragma once

/// Names of tensors in published weight files, where they are others than those of the class.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/model.hpp"

namespace membudget {

/// Fills in `Parameter::checkpoint_name` by the rules of `family.stored_names`.
void set_checkpoint_names(const Family& family, Model& model);

/// Tensors of a file that are all or a piece of one parameter.
struct StoredPiece {
    std::string name;  ///< `*` stands for an index below `count`
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
};

/// The pieces of a tensor of that shape under a checkpoint name, in which braces are expanded.
[[nodiscard]] std::vector<StoredPiece> stored_pieces(std::string_view checkpoint_name,
                                                     const std::vector<std::int64_t>& shape);

/// The same in a GGUF file of llama.cpp, of a parameter with that full name (`{}` for its layer) in
/// that block; none where llama.cpp's name of it is not known.
[[nodiscard]] std::vector<StoredPiece> gguf_pieces(std::string_view name, std::int64_t layer,
                                                   const std::vector<std::int64_t>& shape,
                                                   const Block& block);

}  // namespace membudget
