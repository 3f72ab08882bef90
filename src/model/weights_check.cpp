/// A weight file beside the model: what each has that the other has not, and why.

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "membudget/model.hpp"
#include "model/stored_names.hpp"

namespace membudget {

namespace {

/// Tensors that published files hold and that are no parameters, by a part of their name.
struct Extra {
    std::string_view part;
    bool at_end;  ///< the name ends with `part`; else it holds it
    std::string_view reason;
};
constexpr std::string_view kBuffer = "a buffer, not a parameter";
constexpr std::string_view kScale = "a scale of quantized weights";
constexpr std::string_view kFurtherTokens = "of multi-token prediction";
constexpr std::size_t kMostFurtherLayers = 16;  ///< models have one to three
constexpr Extra kExtras[] = {
    {".inv_freq", true, kBuffer},
    {".masked_bias", true, kBuffer},
    {".attn.bias", true, kBuffer},
    {".attention.bias", true, kBuffer},
    {".position_ids", true, kBuffer},
    {".token_type_ids", true, kBuffer},
    {".relative_position_index", true, kBuffer},
    {".num_batches_tracked", true, kBuffer},
    {".running_mean", true, kBuffer},
    {".running_var", true, kBuffer},
    {".e_score_correction_bias", true, kBuffer},
    {"rope_freqs.weight", true, kBuffer},
    {"rope_factors_long.weight", true, kBuffer},
    {"rope_factors_short.weight", true, kBuffer},
    {".exp_probs_b.bias", true, kBuffer},
    {".EncDecAttention.relative_attention_bias.weight", true, "a leftover that no class uses"},
    {".weight_scale_inv", true, kScale},
    {".weight_scale", true, kScale},
    {".input_scale", true, kScale},
    {".activation_scale", true, kScale},
    {".scales", true, kScale},
    {"_scales", true, kScale},
    {".qzeros", true, kScale},
    {".g_idx", true, kScale},
    {".absmax", true, kScale},
    {".quant_map", true, kScale},
    {"mtp.", false, kFurtherTokens},
};

std::string_view reason_of_extra(std::string_view name) {
    for (const Extra& extra : kExtras)
        if (extra.at_end ? name.ends_with(extra.part) : name.find(extra.part) != name.npos)
            return extra.reason;
    return {};
}

/// A parameter of the model.
struct Expected {
    std::string name;  ///< in the class
    const Parameter* parameter = nullptr;
    std::int64_t pieces = 1;  ///< tensors that a file of the usual names has of it
    std::int64_t found = 0;
    [[nodiscard]] bool complete() const { return found >= pieces; }
};

/// What a file may hold under one name, where `*` stands for an index below `count`.
struct Slot {
    std::vector<std::size_t> expected;  ///< the parameters of which it is all or a piece
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    bool whole = false;  ///< all of its parameter, however many pieces the usual names have of it
};

std::string name_of_copy(const std::string& prefix, std::int64_t layer, std::string_view name) {
    const std::size_t at = prefix.find("{}");
    if (at == std::string::npos) return prefix + std::string(name);
    return fmt::format("{}{}{}{}", prefix.substr(0, at), layer, prefix.substr(at + 2), name);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

Elements elements_of_shape(const std::vector<std::int64_t>& shape) {
    Elements product{1};
    for (const std::int64_t extent : shape) product = product * extent;
    return product;
}

std::int64_t distance(std::int64_t total, Elements bytes) {
    return std::abs(total - bytes.count());
}

/// Shapes agree up to extents of 1, which formats add and drop.
bool same_shape(std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
    std::erase(a, 1);
    std::erase(b, 1);
    return a == b;
}

/// Compares one file with one model, tensor by tensor.
class Comparison {
public:
    Comparison(const Model& model, const WeightFile& file) : model_(model), file_(file) {
        out_.parameters = count_parameters(model).total;
    }

    WeightCheck run() {
        if (!expect_parameters()) {
            compare_elements();
            return std::move(out_);
        }
        find_further_layers();
        for (const WeightTensor& tensor : file_.tensors) compare(tensor);
        for (const Expected& expected : expected_)
            if (!expected.complete()) report_missing(expected);
        if (file_.format == WeightFormat::index) compare_total();
        return std::move(out_);
    }

private:
    /// False when the names of the file's format are not known for this model.
    bool expect_parameters() {
        for (const Section& section : model_.sections) {
            std::int64_t layer = section.first_index;
            for (std::int64_t copy = 0; copy < section.count; ++copy)
                for (const int index : section.pattern) {
                    const Block& block = model_.blocks[static_cast<std::size_t>(index)];
                    for (const Parameter& parameter : block.parameters)
                        if (!expect(section.prefix, layer, block, parameter)) return false;
                    ++layer;
                }
        }
        return true;
    }

    bool expect(const std::string& prefix, std::int64_t layer, const Block& block,
                const Parameter& parameter) {
        const std::size_t index = expected_.size();
        const std::string name = name_of_copy(prefix, layer, parameter.name);
        expected_.push_back({name, &parameter});
        if (file_.format == WeightFormat::gguf) {
            const std::vector<StoredPiece> pieces =
                gguf_pieces(prefix + parameter.name, layer, parameter.shape, block);
            add_pieces(index, pieces);
            return !pieces.empty();
        }
        if (!parameter.checkpoint_name.empty())
            add_pieces(index, stored_pieces(name_of_copy(parameter.checkpoint_name, layer, {}),
                                            parameter.shape));
        slots_.emplace(name, Slot{{index}, parameter.shape, 1, true});
        // Files of the bare base model lack the first component: "h.0" for "transformer.h.0".
        if (const std::size_t dot = name.find('.'); dot != name.npos)
            bases_.insert(name.substr(0, dot + 1));
        return true;
    }

    /// Parameters that share a name are joined along the first dimension.
    void add_pieces(std::size_t index, const std::vector<StoredPiece>& pieces) {
        expected_[index].pieces = 0;
        for (const StoredPiece& piece : pieces) {
            expected_[index].pieces += piece.count;
            const auto [it, fresh] =
                slots_.try_emplace(piece.name, Slot{{index}, piece.shape, piece.count});
            if (fresh) continue;
            it->second.expected.push_back(index);
            if (!piece.shape.empty()) it->second.shape.front() += piece.shape.front();
        }
    }

    /// DeepSeek's layers of multi-token prediction are numbered on after the last layer; only the
    /// projection that joins two tokens tells them from a layer that the config forgot.
    void find_further_layers() {
        constexpr std::string_view kJoin = "eh_proj.weight";
        for (const WeightTensor& tensor : file_.tensors)
            if (std::string_view name = tensor.name; name.ends_with("." + std::string(kJoin))) {
                name.remove_suffix(kJoin.size());
                if (further_layers_.size() < kMostFurtherLayers) further_layers_.push_back(name);
            }
    }

    const Slot* find(const std::string& name) const {
        if (const Slot* slot = find_whole(name)) return slot;
        for (const std::string& base : bases_)
            if (const Slot* slot = find_whole(base + name)) return slot;
        return nullptr;
    }

    /// The slot of that name, or of that name with `*` for one of its indices.
    const Slot* find_whole(const std::string& name) const {
        if (const auto it = slots_.find(name); it != slots_.end()) return &it->second;
        for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
            const std::size_t end = std::min(name.find('.', dot + 1), name.size());
            std::int64_t index = 0;
            const char* const last = name.data() + end;
            const auto parsed = std::from_chars(name.data() + dot + 1, last, index);
            if (parsed.ec != std::errc() || parsed.ptr != last || index < 0) continue;
            std::string pattern = name;
            pattern.replace(dot + 1, end - dot - 1, "*");
            const auto it = slots_.find(pattern);
            if (it != slots_.end() && index < it->second.count) return &it->second;
        }
        return nullptr;
    }

    void compare(const WeightTensor& tensor) {
        const Slot* slot = find(tensor.name);
        if (slot == nullptr || expected_[slot->expected.front()].complete()) {
            std::string_view reason = reason_of_extra(tensor.name);
            for (const std::string_view layer : further_layers_)
                if (reason.empty() && tensor.name.starts_with(layer)) reason = kFurtherTokens;
            differ(tensor.name, "in the file, not in the model", reason);
            explained_extras_ += !reason.empty();
            return;
        }
        for (const std::size_t index : slot->expected) {
            Expected& expected = expected_[index];
            expected.found = slot->whole ? expected.pieces : expected.found + 1;
            if (!expected.parameter->tied_to.empty())
                stored_as_copy_.insert(expected.parameter->tied_to);
        }
        const bool own = expected_[slot->expected.front()].parameter->tied_to.empty();
        (own ? own_ : tied_) += elements_of_shape(slot->shape);
        const bool shaped = file_.format != WeightFormat::index;
        if (shaped && !agrees(tensor.shape, slot->shape)) {
            differ(tensor.name, fmt::format("expected shape {}; got {}", shape_text(slot->shape),
                                            shape_text(tensor.shape)), {});
            return;
        }
        ++out_.matched;
    }

    [[nodiscard]] bool agrees(const std::vector<std::int64_t>& got,
                              const std::vector<std::int64_t>& expected) const {
        if (file_.format != WeightFormat::gguf) return got == expected;
        return same_shape(got, expected);
    }

    void report_missing(const Expected& expected) {
        // A file holds a tied tensor under one of its names.
        if (!expected.parameter->tied_to.empty() || stored_as_copy_.contains(expected.name)) return;
        differ(expected.name,
               expected.found == 0 ? "in the model, not in the file"
                                   : fmt::format("expected {} tensors of its pieces; got {}",
                                                 expected.pieces, expected.found), {});
        names_agree_ = false;
    }

    void differ(std::string tensor, std::string what, std::string_view reason) {
        if (reason.empty()) names_agree_ = false;
        out_.differences.push_back({std::move(tensor), std::move(what), std::string(reason)});
    }

    /// Bytes of one parameter as the index counts them: of the config's type, else of the type that
    /// comes out even. phi-2's index counts fp32 though its config says fp16.
    void compare_total() {
        if (!file_.total_bytes || !names_agree_) return;
        const std::int64_t total = file_.total_bytes->count();
        for (const Elements elements : {own_, own_ + tied_})
            for (const std::int64_t bytes : {2, 4, 1})
                if ((elements * bytes).count() == total) return;
        std::int64_t width = 1;  // bytes of the type that comes nearest
        for (const std::int64_t bytes : {2, 4})
            if (distance(total, own_ * bytes) < distance(total, own_ * width)) width = bytes;
        const std::int64_t rest = total - (own_ * width).count();
        // Buffers are small beside the weights; more than a tenth is something else.
        const bool buffers = explained_extras_ > 0 && rest > 0 && rest < total / 10;
        differ("metadata.total_size",
               fmt::format("expected {} bytes ({} parameters of {}); got {}",
                           group_digits((own_ * width).count()), group_digits(own_.count()), width,
                           group_digits(total)),
               buffers ? fmt::format("{} bytes in {} tensors that are no parameters",
                                     group_digits(rest), explained_extras_)
                       : std::string());
    }

    /// A converter renames, splits and joins tensors, but keeps their elements: what is left to
    /// compare where its names are not known.
    void compare_elements() {
        Elements stored;
        for (const WeightTensor& tensor : file_.tensors) {
            const std::string_view reason = reason_of_extra(tensor.name);
            if (reason.empty())
                stored += tensor.elements;
            else
                differ(tensor.name, "in the file, not in the model", reason);
        }
        const ParameterCounts counts = count_parameters(model_);
        if (stored == counts.total || stored == counts.untied) {
            out_.matched = static_cast<std::int64_t>(file_.tensors.size() - out_.differences.size());
            return;
        }
        differ({}, fmt::format("expected {} elements; got {}", group_digits(counts.total.count()),
                               group_digits(stored.count())), {});
    }

    const Model& model_;
    const WeightFile& file_;
    WeightCheck out_;
    std::vector<Expected> expected_;
    std::unordered_map<std::string, Slot> slots_;  ///< by the names that a file may use
    std::set<std::string> bases_;                  ///< "model.", "lm_head."
    std::vector<std::string_view> further_layers_;  ///< prefixes: "model.layers.61."
    std::unordered_set<std::string_view> stored_as_copy_;  ///< own names of the tied ones found
    Elements own_, tied_;  ///< of the parameters that the file holds: own storages, tied copies
    std::int64_t explained_extras_ = 0;
    bool names_agree_ = true;
};

}  // namespace

bool WeightCheck::ok() const {
    return std::all_of(differences.begin(), differences.end(),
                       [](const WeightDifference& d) { return !d.reason.empty(); });
}

WeightCheck check_weights(const Model& model, const WeightFile& weights) {
    return Comparison(model, weights).run();
}

}  // namespace membudget
