/// The header of a safetensors file, as its format is described at
/// https://github.com/huggingface/safetensors.

#include <algorithm>
#include <istream>
#include <numeric>

#include <fmt/format.h>

#include "membudget/model.hpp"
#include "model/weights_input.hpp"

namespace membudget {

namespace {

struct SafetensorsType {
    std::string_view name;
    int bits;
};

constexpr SafetensorsType kTypes[] = {
    {"BOOL", 8},        {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8},
    {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"I16", 16},        {"U16", 16},        {"F16", 16},        {"BF16", 16},
    {"I32", 32},        {"U32", 32},        {"F32", 32},        {"I64", 64},
    {"U64", 64},        {"F64", 64},        {"C64", 64},        {"F6_E2M3", 6},
    {"F6_E3M2", 6},     {"F4", 4},
};
static_assert(names_are_unique(kTypes));

/// The bytes from `begin` to `end` of the data that tensor `index` owns.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t index = 0;
};

/// Reads the entries of a header, one after the other; gathers what is wrong with them.
class HeaderReader {
public:
    explicit HeaderReader(std::int64_t data_size) : data_size_(data_size) {}

    Result<WeightFile> read(const KeyTree& header) {
        for (const auto& [name, value] : header.members()) {
            if (errors_.size() >= kMostWeightMistakes) return errors_;
            if (name == "__metadata__")
                check_metadata(value);
            else
                read_tensor(name, value);
        }
        if (errors_.empty()) check_ranges();
        if (!errors_.empty()) return errors_;
        out_.total_bytes = Bytes(data_size_);
        return std::move(out_);
    }

private:
    void check_metadata(const KeyTree& metadata) {
        if (!metadata.is(KeyTree::Kind::object))
            errors_.invalid("/__metadata__",
                            "expected an object of strings; got " + metadata.describe());
        for (const auto& [key, value] : metadata.members())
            if (!value.is(KeyTree::Kind::string) && errors_.size() < kMostWeightMistakes)
                errors_.invalid(pointer_child("/__metadata__", key),
                                "expected a string; got " + value.describe());
    }

    void read_tensor(const std::string& name, const KeyTree& entry) {
        const std::string pointer = pointer_child("", name);
        if (!entry.is(KeyTree::Kind::object)) {
            errors_.invalid(pointer, "expected an object with 'dtype', 'shape' and 'data_offsets'; got " +
                                         entry.describe());
            return;
        }
        const std::size_t before = errors_.size();
        const SafetensorsType* type = read_type(entry, pointer);
        const std::vector<std::int64_t> shape = read_numbers(entry, pointer, "shape");
        const std::vector<std::int64_t> offsets = read_numbers(entry, pointer, "data_offsets");
        if (errors_.size() > before) return;
        const std::string at = pointer_child(pointer, "data_offsets");
        if (offsets.size() != 2 || offsets[0] > offsets[1]) {
            errors_.invalid(at, fmt::format("expected a begin and an end not before it; got [{}]",
                                            fmt::join(offsets, ", ")));
            return;
        }
        const std::optional<std::int64_t> elements = elements_of(shape);
        if (!elements) {
            errors_.invalid(pointer_child(pointer, "shape"),
                            fmt::format("expected at most {} elements; got [{}]",
                                        kLargestWeightNumber, fmt::join(shape, ", ")));
            return;
        }
        const std::int64_t bits = *elements * type->bits;
        const std::int64_t stored = offsets[1] - offsets[0];
        if (bits % 8 != 0 || bits / 8 != stored) {
            errors_.invalid(at, fmt::format("expected {} of {} to take {} bits; got {} bytes",
                                            *elements, type->name, bits, stored));
            return;
        }
        ranges_.push_back({offsets[0], offsets[1], out_.tensors.size()});
        out_.tensors.push_back({name, shape, std::string(type->name), Elements(*elements),
                                Bytes(stored), {}});
    }

    const SafetensorsType* read_type(const KeyTree& entry, const std::string& pointer) {
        const Table<SafetensorsType> types{kTypes};
        const KeyTree* value = entry.find("dtype");
        const std::string name = value != nullptr ? value->text() : std::string();
        if (value != nullptr && value->is(KeyTree::Kind::string))
            if (const SafetensorsType* type = types.find(name)) return type;
        errors_.invalid(pointer_child(pointer, "dtype"),
                        "expected an element type of safetensors; got " +
                            (value != nullptr ? value->describe() : "none"),
                        did_you_mean(name, types.names()));
        return nullptr;
    }

    std::vector<std::int64_t> read_numbers(const KeyTree& entry, const std::string& pointer,
                                           std::string_view key) {
        const std::string at = pointer_child(pointer, key);
        const KeyTree* value = entry.find(key);
        std::vector<std::int64_t> out;
        if (value == nullptr || !value->is(KeyTree::Kind::array)) {
            errors_.invalid(at, "expected an array of whole numbers; got " +
                                    (value != nullptr ? value->describe() : "none"));
            return out;
        }
        for (std::size_t i = 0; i < value->items().size(); ++i) {
            const KeyTree& item = value->items()[i];
            if (item.is(KeyTree::Kind::integer) && item.integer() >= 0 &&
                item.integer() <= kLargestWeightNumber) {
                out.push_back(item.integer());
                continue;
            }
            errors_.invalid(pointer_child(at, i),
                            fmt::format("expected a whole number from 0 to {}; got {}",
                                        kLargestWeightNumber, item.describe()));
            break;  // the first one says it
        }
        return out;
    }

    /// The tensors fill the data without overlap or hole, from its start to its end.
    void check_ranges() {
        std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
            return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
        std::int64_t expected = 0;
        for (const Range& range : ranges_) {
            if (range.begin != expected) {
                errors_.invalid(
                    pointer_child(pointer_child("", out_.tensors[range.index].name), "data_offsets"),
                    fmt::format("expected data from byte {}, where the tensor before it ends; got "
                                "{} from byte {}",
                                expected, range.begin < expected ? "an overlap" : "a hole",
                                range.begin));
                return;
            }
            expected = range.end;
        }
        if (expected != data_size_)
            errors_.invalid("", fmt::format("expected {} bytes of tensors after the header; got {}",
                                            expected, data_size_),
                            expected > data_size_ ? "the file is cut off: fetch it again" : "");
    }

    std::int64_t data_size_;
    std::vector<Range> ranges_;
    WeightFile out_;
    Diagnostics errors_;
};

Result<WeightFile> read_header(std::istream& in, std::int64_t size) {
    const auto refuse = [](std::string message) {
        return Diagnostic{Trouble::invalid, {}, {}, std::move(message), {}};
    };
    std::string length(8, '\0');
    if (size < 8 || !in.read(length.data(), 8))
        return refuse(fmt::format("expected the 8 bytes of a header's length; got {}",
                                  std::max<std::int64_t>(size, 0)));
    const std::uint64_t bytes = little_endian(length);
    if (bytes > kLargestSafetensorsHeader)
        return refuse(fmt::format("expected a header of at most {} bytes; got {}",
                                  kLargestSafetensorsHeader, bytes));
    if (bytes > static_cast<std::uint64_t>(size) - 8)
        return refuse(fmt::format("expected a header of {} bytes; got {} to the end of the file",
                                  bytes, size - 8));
    std::string text(static_cast<std::size_t>(bytes), '\0');
    if (!in.read(text.data(), static_cast<std::streamsize>(bytes)))
        return refuse(fmt::format("expected a header of {} bytes; it cannot be read", bytes));
    if (!text.starts_with('{'))
        return refuse("expected a header that starts with '{'; got " + in_quotes(text, 8));
    const Result<KeyTree> header =
        parse_json(text, {}, DuplicateKeys::refuse,
                   {.bytes = static_cast<std::size_t>(kLargestSafetensorsHeader), .depth = 8});
    if (!header) return header.errors();
    return HeaderReader(size - 8 - static_cast<std::int64_t>(bytes)).read(*header);
}

}  // namespace

std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& shape) {
    std::int64_t out = 1;
    for (const std::int64_t extent : shape)
        if (extent == 0) return 0;
    for (const std::int64_t extent : shape) {
        if (extent < 0 || out > kLargestWeightNumber / extent) return std::nullopt;
        out *= extent;
    }
    return out;
}

Result<WeightFile> read_safetensors_header(std::istream& in, std::int64_t size,
                                           std::string_view file) {
    return of_file(read_header(in, size), file);
}

}  // namespace membudget
