/// Any bytes as a safetensors file: a header whose tensors fill the file, or diagnostics.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "membudget/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
    const auto file =
        membudget::read_safetensors_header(in, static_cast<std::int64_t>(size), "fuzz");
    if (!file) return 0;
    membudget::Bytes sum;
    for (const membudget::WeightTensor& tensor : file->tensors) sum += tensor.bytes;
    if (sum != file->total_bytes || sum.count() > static_cast<std::int64_t>(size)) std::abort();
    return 0;
}
