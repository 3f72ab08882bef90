#pragma once

/// Weight files made of their parts, for the tests of their readers.

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "build.hpp"

/// `value` in `bytes` bytes, the lowest first.
inline std::string le(std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
    return out;
}

/// A safetensors file: `header` with its length before it and `data` zero bytes after it.
inline std::string safetensors_of(std::string_view header, std::size_t data) {
    return le(header.size(), 8) + std::string(header) + std::string(data, '\0');
}

inline membudget::Result<membudget::WeightFile> read_safetensors(const std::string& bytes) {
    std::istringstream in(bytes);
    return membudget::read_safetensors_header(in, static_cast<std::int64_t>(bytes.size()), {});
}

inline membudget::Result<membudget::WeightFile> read_gguf(const std::string& bytes) {
    std::istringstream in(bytes);
    return membudget::read_gguf_header(in, static_cast<std::int64_t>(bytes.size()), {});
}

/// A string of GGUF.
inline std::string gguf_text(std::string_view text) {
    return le(text.size(), 8) + std::string(text);
}

/// A tensor of a GGUF header; `dimensions` with the fastest one first.
inline std::string gguf_tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                               std::uint32_t type, std::uint64_t offset) {
    std::string out = gguf_text(name) + le(dimensions.size(), 4);
    for (const std::uint64_t extent : dimensions) out += le(extent, 8);
    return out + le(type, 4) + le(offset, 8);
}

/// A GGUF file of version 3 with `values` (each key, type and value) and `tensors`, padded to 32
/// bytes and followed by `data` zero bytes.
inline std::string gguf_of(const std::vector<std::string>& values,
                           const std::vector<std::string>& tensors, std::size_t data) {
    std::string out = "GGUF" + le(3, 4) + le(tensors.size(), 8) + le(values.size(), 8);
    for (const std::string& value : values) out += value;
    for (const std::string& tensor : tensors) out += tensor;
    out.resize((out.size() + 31) / 32 * 32);
    return out + std::string(data, '\0');
}
