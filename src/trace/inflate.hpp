#pragma once

/// gzip (RFC 1952), undone front to back in bounded memory.

#include <memory>
#include <string_view>

#include "membudget/trace.hpp"

namespace membudget {

/// True when `head` begins a gzip stream.
[[nodiscard]] bool is_gzip(std::string_view head);

/// The members of a gzip stream one after the other, checked against their sums.
[[nodiscard]] std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> packed);

}  // namespace membudget
