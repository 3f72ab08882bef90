/// Any bytes as a GGUF file: a header whose tensors lie within the file, or one diagnostic.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "membudget/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
    const auto file = membudget::read_gguf_header(in, static_cast<std::int64_t>(size), "fuzz");
    if (!file) {
        if (file.errors().size() != 1) std::abort();
        return 0;
    }
    membudget::Bytes sum;
    for (const membudget::WeightTensor& tensor : file->tensors) sum += tensor.bytes;
    if (sum != file->total_bytes || sum.count() > static_cast<std::int64_t>(size)) std::abort();
    return 0;
}
