#pragma once

/// ModernBERT: an encoder with rotated queries and keys, and global layers between local ones.

#include "membudget/model.hpp"

namespace membudget {

/// `Family::build` of ModernBERT.
[[nodiscard]] Result<Model> build_modernbert(const Family& family, const KeyTree& config,
                                             std::string_view architecture);

}  // namespace membudget
