/// Weight files by their content, and the index over shards.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "membudget/model.hpp"
#include "model/weights_input.hpp"

namespace membudget {

namespace {

/// The bytes of an index's tensors. Some writers give a float: 13731385408.0.
std::optional<Bytes> read_total(const KeyTree& value, Diagnostics& errors) {
    constexpr std::string_view kPointer = "/metadata/total_size";
    const bool number = value.is(KeyTree::Kind::integer) || value.is(KeyTree::Kind::number);
    const double bytes = number ? value.number() : -1.0;
    if (!(bytes >= 0 && bytes <= static_cast<double>(kLargestBytes)) ||
        bytes != std::floor(bytes)) {
        errors.invalid(kPointer, fmt::format("expected a whole number of bytes up to {}; got {}",
                                             kLargestBytes, value.describe()));
        return std::nullopt;
    }
    return Bytes(static_cast<std::int64_t>(bytes));
}

Result<WeightFile> index_of(const KeyTree& tree) {
    Diagnostics errors;
    WeightFile out{WeightFormat::index, {}, {}, {}};
    const KeyTree* map = tree.find("weight_map");
    if (map == nullptr || !map->is(KeyTree::Kind::object)) {
        errors.invalid(map == nullptr ? "" : "/weight_map",
                       fmt::format("expected an object 'weight_map' of tensor names; got {}",
                                   map == nullptr ? "none" : map->describe()));
        return errors;
    }
    for (const auto& [name, shard] : map->members()) {
        if (errors.size() >= kMostWeightMistakes) break;
        if (!shard.is(KeyTree::Kind::string)) {
            errors.invalid(pointer_child("/weight_map", name),
                           "expected the name of a file; got " + shard.describe());
            continue;
        }
        WeightTensor& tensor = out.tensors.emplace_back();
        tensor.name = name;
        tensor.shard = shard.text();
    }
    if (const KeyTree* metadata = tree.find("metadata"); metadata != nullptr) {
        if (!metadata->is(KeyTree::Kind::object) && !metadata->is_null())
            errors.invalid("/metadata", "expected an object; got " + metadata->describe());
        if (const KeyTree* total = metadata->find("total_size"))
            out.total_bytes = read_total(*total, errors);
    }
    if (!errors.empty()) return errors;
    return out;
}

Diagnostic refuse(const std::string& path, std::string message, std::string hint = {}) {
    return {Trouble::invalid, path, {}, std::move(message), std::move(hint)};
}

/// What the first bytes of a file say it is; nothing when it is no weight file that we read.
std::optional<WeightFormat> recognise_weights(std::string_view start) {
    if (start.starts_with("GGUF")) return WeightFormat::gguf;
    const bool brace_at_8 = start.size() > 8 && start[8] == '{';
    // A header length of which a byte reads as '{' is still far below what a text gives there.
    if (brace_at_8 && little_endian(start.substr(0, 8)) <= kLargestSafetensorsHeader)
        return WeightFormat::safetensors;
    if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
    const std::size_t first = start.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && start[first] == '{') return WeightFormat::index;
    if (brace_at_8) return WeightFormat::safetensors;
    return std::nullopt;
}

Diagnostic unknown_weights(const std::string& path, std::string_view start) {
    if (start.starts_with("PK") || start.starts_with("\x80\x02"))
        return {Trouble::unsupported, path, {},
                "expected a safetensors file, its index or a GGUF file; got a pickle of PyTorch",
                "convert it to safetensors, or give its index (*.index.json)"};
    return refuse(path, start.empty()
                            ? "expected a safetensors file, its index or a GGUF file; got an empty file"
                            : "expected a safetensors file, its index or a GGUF file; got one that "
                              "starts with " + in_quotes(start, 16));
}

}  // namespace

std::string_view name_of(WeightFormat format) {
    switch (format) {
        case WeightFormat::safetensors: return "safetensors";
        case WeightFormat::index: return "index";
        case WeightFormat::gguf: return "gguf";
    }
    throw InternalError("a weight format without a name");
}

Result<WeightFile> of_file(Result<WeightFile> out, std::string_view file) {
    if (!out) {
        Diagnostics errors = out.errors();
        errors.set_file(file);
        return errors;
    }
    out->file = file;
    return out;
}

Result<WeightFile> read_safetensors_index(std::string_view text, std::string_view file) {
    const Result<KeyTree> tree = parse_json(text, file, DuplicateKeys::last_wins);
    if (!tree) return tree.errors();
    return of_file(index_of(*tree), file);
}

Result<WeightFile> read_weights(const std::string& path) {
    std::error_code failure;
    const auto status = std::filesystem::status(path, failure);
    if (status.type() == std::filesystem::file_type::not_found)
        return refuse(path, "expected a file; there is none of this name");
    if (status.type() == std::filesystem::file_type::directory)
        return refuse(path, "expected a file; got a directory");
    // A header is checked against the size of its file: a stream has none.
    if (status.type() != std::filesystem::file_type::regular)
        return refuse(path, "expected a regular file; got another kind of file");
    const std::uintmax_t size = std::filesystem::file_size(path, failure);
    std::ifstream in(path, std::ios::binary);
    if (failure || !in || !std::in_range<std::int64_t>(size))
        return refuse(path, "expected a readable file; it cannot be opened");
    std::array<char, 64> bytes{};
    in.read(bytes.data(), bytes.size());
    const std::string_view start(bytes.data(), static_cast<std::size_t>(in.gcount()));
    const std::optional<WeightFormat> format = recognise_weights(start);
    if (!format) return unknown_weights(path, start);
    if (*format == WeightFormat::index) {
        const Result<std::string> text = read_text(path);
        if (!text) return text.errors();
        return read_safetensors_index(*text, path);
    }
    in.clear();
    in.seekg(0);
    return *format == WeightFormat::gguf
               ? read_gguf_header(in, static_cast<std::int64_t>(size), path)
               : read_safetensors_header(in, static_cast<std::int64_t>(size), path);
}

Result<std::vector<WeightReport>> check_weight_files(const Model& model,
                                                     const std::vector<std::string>& paths) {
    Diagnostics errors;
    std::vector<WeightFile> sets;
    std::vector<WeightReport> out;
    for (const std::string& path : paths) {
        Result<WeightFile> file = read_weights(path);
        if (!file) {
            errors.take(file.errors());
            continue;
        }
        const auto same = std::find_if(sets.begin(), sets.end(), [&](const WeightFile& set) {
            return set.format == file->format && set.format != WeightFormat::index;
        });
        if (same == sets.end()) {
            out.push_back({{path}, file->format, 0, std::nullopt, {}});
            sets.push_back(std::move(*file));
            continue;
        }
        out[static_cast<std::size_t>(same - sets.begin())].files.push_back(path);
        std::move(file->tensors.begin(), file->tensors.end(), std::back_inserter(same->tensors));
        if (same->total_bytes && file->total_bytes) *same->total_bytes += *file->total_bytes;
    }
    if (!errors.empty()) return errors;
    for (std::size_t i = 0; i < sets.size(); ++i) {
        out[i].tensors = static_cast<std::int64_t>(sets[i].tensors.size());
        out[i].total_bytes = sets[i].total_bytes;
        out[i].check = check_weights(model, sets[i]);
    }
    return out;
}

std::string verdict_of(const WeightReport& report) {
    const auto& differences = report.check.differences;
    std::int64_t open = 0;
    for (const WeightDifference& difference : differences) open += difference.reason.empty();
    const std::string matched = fmt::format("{} of {} tensors are the model's", report.check.matched,
                                            report.tensors);
    if (open > 0) return fmt::format("{}; {} {} unexplained", matched, open,
                                     open == 1 ? "difference is" : "differences are");
    if (differences.empty()) return matched + ": the count matches";
    return fmt::format("{}; the others are known: the count matches", matched);
}

}  // namespace membudget
