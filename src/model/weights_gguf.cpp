/// The header of a GGUF file, as its format is described at
/// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.

#include <algorithm>
#include <istream>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "membudget/model.hpp"
#include "model/weights_input.hpp"

namespace membudget {

namespace {

/// How ggml stores a run of elements.
struct GgmlType {
    std::uint32_t id;
    std::string_view name;
    std::int64_t block_elements;
    std::int64_t block_bytes;
};

constexpr GgmlType kTypes[] = {
    {0, "F32", 1, 4},        {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},     {6, "Q5_0", 32, 22},     {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},     {9, "Q8_1", 32, 36},     {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},  {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},  {15, "Q8_K", 256, 292},  {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},  {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},       {25, "I16", 1, 2},
    {26, "I32", 1, 4},       {27, "I64", 1, 8},       {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},      {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},  {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},   {42, "Q2_0", 64, 18},
};
static_assert(names_are_unique(kTypes));

const GgmlType* find_type(std::uint32_t id) {
    for (const GgmlType& type : kTypes)
        if (type.id == id) return &type;
    return nullptr;
}

/// Types of metadata values; bytes of one, 0 for those of no fixed length.
constexpr std::uint64_t kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::uint32_t kUint32 = 4;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

constexpr std::uint64_t kLongest = std::uint64_t{1} << 30;  ///< bytes of a string, items of an array
constexpr std::uint64_t kLongestKey = 65535;
constexpr std::uint64_t kLongestTensorName = 63;
constexpr std::uint64_t kMostTensors = 1'000'000;  ///< bounds the memory of the answer
constexpr std::uint64_t kMostKeys = 100'000;
constexpr std::uint32_t kMostDimensions = 4;
constexpr int kDeepestArray = 4;
constexpr std::uint64_t kSeekFrom = 1 << 16;  ///< shorter gaps are read: a seek drops the buffer

/// Reading stops at the first mistake: what follows it is not where it seems to be.
struct Stop {
    Diagnostic why;
};

[[noreturn]] void stop(std::string pointer, std::string message,
                       Trouble trouble = Trouble::invalid) {
    throw Stop{{trouble, {}, std::move(pointer), std::move(message), {}}};
}

/// Little-endian values, one after the other, never beyond the end of the file.
class Input {
public:
    Input(std::istream& in, std::int64_t size)
        : in_(in), size_(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0))) {}

    [[nodiscard]] std::uint64_t position() const { return position_; }
    [[nodiscard]] std::uint64_t left() const { return size_ - position_; }

    std::uint64_t number(std::size_t bytes, const std::string& pointer) {
        return little_endian(text(bytes, pointer));
    }
    std::uint32_t u32(const std::string& pointer) {
        return static_cast<std::uint32_t>(number(4, pointer));
    }
    std::uint64_t u64(const std::string& pointer) { return number(8, pointer); }

    std::string text(std::uint64_t bytes, const std::string& pointer) {
        require(bytes, pointer);
        std::string out(static_cast<std::size_t>(bytes), '\0');
        if (!in_.read(out.data(), static_cast<std::streamsize>(bytes)))
            stop(pointer, "expected readable bytes; the file cannot be read");
        position_ += bytes;
        return out;
    }
    /// A string with its length before it.
    std::string string(std::uint64_t longest, const std::string& pointer) {
        const std::uint64_t bytes = u64(pointer);
        if (bytes > longest)
            stop(pointer, fmt::format("expected a string of at most {} bytes; got {}", longest, bytes));
        return text(bytes, pointer);
    }
    void skip(std::uint64_t bytes, const std::string& pointer) {
        require(bytes, pointer);
        const auto count = static_cast<std::streamoff>(bytes);
        if (bytes < kSeekFrom)
            in_.ignore(count);
        else
            in_.seekg(count, std::ios::cur);
        if (!in_) stop(pointer, "expected readable bytes; the file cannot be read");
        position_ += bytes;
    }

private:
    void require(std::uint64_t bytes, const std::string& pointer) const {
        if (bytes > left())
            stop(pointer, fmt::format("expected {} more bytes of the header; got {} to the end of "
                                      "the file", bytes, left()));
    }
    std::istream& in_;
    std::uint64_t size_;
    std::uint64_t position_ = 0;
};

class GgufReader {
public:
    GgufReader(std::istream& in, std::int64_t size) : in_(in, size) {}

    WeightFile read() {
        WeightFile out{WeightFormat::gguf, {}, {}, {}};
        read_start();
        const std::uint64_t tensors = count("tensors", kMostTensors);
        const std::uint64_t keys = count("metadata values", kMostKeys);
        for (std::uint64_t i = 0; i < keys; ++i) read_value();
        // Nothing is reserved by a count that the file only claims.
        for (std::uint64_t i = 0; i < tensors; ++i) out.tensors.push_back(read_tensor(i));
        check_offsets(out);
        Bytes total;  // within the file now, so that it cannot overflow
        for (const WeightTensor& tensor : out.tensors) total += tensor.bytes;
        out.total_bytes = total;
        return out;
    }

private:
    void read_start() {
        const std::string magic = in_.text(4, "");
        if (magic != "GGUF") stop("", "expected a file that starts with 'GGUF'; got " + in_quotes(magic));
        const std::uint32_t version = in_.u32("");
        // A version is small: one with empty low bytes was written the other way round.
        if ((version & 0xFFFF) == 0 && version != 0)
            stop("", "expected a little-endian GGUF file; got a big-endian one", Trouble::unsupported);
        if (version != 2 && version != 3)
            stop("", fmt::format("expected version 2 or 3 of GGUF; got {}", version),
                 Trouble::unsupported);
    }

    std::uint64_t count(std::string_view of, std::uint64_t most) {
        const std::uint64_t out = in_.u64("");
        if (out > most) stop("", fmt::format("expected at most {} {}; got {}", most, of, out));
        return out;
    }

    void read_value() {
        const std::string key = in_.string(kLongestKey, "/metadata");
        const std::string pointer = pointer_child("/metadata", key);
        if (!keys_.insert(key).second) stop(pointer, "expected every key once; got it again");
        const std::uint32_t type = in_.u32(pointer);
        if (key != "general.alignment") return skip_value(type, pointer, 0);
        if (type != kUint32)
            stop(pointer, fmt::format("expected a number of type {}; got type {}", kUint32, type));
        alignment_ = in_.u32(pointer);
        if (alignment_ == 0 || (alignment_ & (alignment_ - 1)) != 0)
            stop(pointer, fmt::format("expected a power of 2; got {}", alignment_));
    }

    void skip_value(std::uint32_t type, const std::string& pointer, int depth) {
        if (type >= std::size(kValueBytes))
            stop(pointer, fmt::format("expected a value of type 0 to {}; got {}",
                                      std::size(kValueBytes) - 1, type));
        if (type == kString) return skip_string(pointer);
        if (type != kArray) return in_.skip(kValueBytes[type], pointer);
        if (depth == kDeepestArray)
            stop(pointer, fmt::format("expected at most {} levels of arrays; got more", kDeepestArray));
        const std::uint32_t item = in_.u32(pointer);
        const std::uint64_t items = in_.u64(pointer);
        if (items > kLongest)
            stop(pointer, fmt::format("expected an array of at most {} items; got {}", kLongest, items));
        if (item < std::size(kValueBytes) && kValueBytes[item] != 0)
            return in_.skip(items * kValueBytes[item], pointer);
        for (std::uint64_t i = 0; i < items; ++i) skip_value(item, pointer, depth + 1);
    }

    void skip_string(const std::string& pointer) {
        const std::uint64_t bytes = in_.u64(pointer);
        if (bytes > kLongest)
            stop(pointer, fmt::format("expected a string of at most {} bytes; got {}", kLongest, bytes));
        in_.skip(bytes, pointer);
    }

    WeightTensor read_tensor(std::uint64_t index) {
        WeightTensor out;
        out.name = in_.string(kLongestTensorName, pointer_child("/tensors", index));
        const std::string pointer = pointer_child("/tensors", out.name);
        if (!names_.insert(out.name).second) stop(pointer, "expected every name once; got it again");
        const std::uint32_t dimensions = in_.u32(pointer);
        if (dimensions > kMostDimensions)
            stop(pointer, fmt::format("expected at most {} dimensions; got {}", kMostDimensions,
                                      dimensions));
        for (std::uint32_t i = 0; i < dimensions; ++i) {
            const std::uint64_t extent = in_.u64(pointer);
            if (extent > static_cast<std::uint64_t>(kLargestWeightNumber))
                stop(pointer, fmt::format("expected extents of at most {}; got {}",
                                          kLargestWeightNumber, extent));
            out.shape.push_back(static_cast<std::int64_t>(extent));
        }
        const std::int64_t row = out.shape.empty() ? 1 : out.shape.front();
        std::reverse(out.shape.begin(), out.shape.end());  // the file has the fastest one first
        read_storage(out, row, pointer);
        return out;
    }

    /// The type and the place of a tensor whose rows have `row` elements.
    void read_storage(WeightTensor& out, std::int64_t row, const std::string& pointer) {
        const std::uint32_t id = in_.u32(pointer);
        const GgmlType* type = find_type(id);
        if (type == nullptr)
            stop(pointer, fmt::format("expected a known type of ggml; got {}", id),
                 Trouble::unsupported);
        const std::optional<std::int64_t> elements = elements_of(out.shape);
        if (!elements)
            stop(pointer, fmt::format("expected at most {} elements; got [{}]", kLargestWeightNumber,
                                      fmt::join(out.shape, ", ")));
        if (row % type->block_elements != 0)
            stop(pointer, fmt::format("expected rows of a multiple of {} elements of {}; got {}",
                                      type->block_elements, type->name, row));
        const std::uint64_t offset = in_.u64(pointer);
        if (offset > static_cast<std::uint64_t>(kLargestWeightNumber) || offset % alignment_ != 0)
            stop(pointer, fmt::format("expected an offset that is a multiple of {} and at most {}; "
                                      "got {}", alignment_, kLargestWeightNumber, offset));
        out.dtype = type->name;
        out.elements = Elements(*elements);
        out.bytes = Bytes(*elements / type->block_elements * type->block_bytes);
        offsets_.push_back(static_cast<std::int64_t>(offset));
    }

    /// No two tensors share bytes, and all of them lie within the file.
    void check_offsets(const WeightFile& file) const {
        std::vector<std::size_t> order(offsets_.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return offsets_[a] != offsets_[b] ? offsets_[a] < offsets_[b]
                                              : std::pair(file.tensors[a].bytes, a) <
                                                    std::pair(file.tensors[b].bytes, b);
        });
        const std::uint64_t padding = (alignment_ - in_.position() % alignment_) % alignment_;
        const auto data = static_cast<std::int64_t>(in_.left() - std::min(in_.left(), padding));
        std::int64_t end = 0;
        for (const std::size_t i : order) {
            const WeightTensor& tensor = file.tensors[i];
            const std::string pointer = pointer_child("/tensors", tensor.name);
            if (offsets_[i] < end)
                stop(pointer, fmt::format("expected data from byte {} on, where the tensor before it "
                                          "ends; got an overlap from byte {}", end, offsets_[i]));
            end = offsets_[i] + tensor.bytes.count();
            if (end > data)
                stop(pointer, fmt::format("expected {} bytes of data after the header; got {}", end,
                                          data));
        }
    }

    Input in_;
    std::uint64_t alignment_ = 32;
    std::unordered_set<std::string> keys_;
    std::unordered_set<std::string> names_;
    std::vector<std::int64_t> offsets_;  ///< of the tensors, from the start of the data
};

}  // namespace

Result<WeightFile> read_gguf_header(std::istream& in, std::int64_t size, std::string_view file) {
    try {
        WeightFile out = GgufReader(in, size).read();
        out.file = file;
        return out;
    } catch (Stop& stopped) {
        stopped.why.file = file;
        return stopped.why;
    }
}

}  // namespace membudget
