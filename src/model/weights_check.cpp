/// A weight file beside the model: what each has that the other has not, and why.

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "membudget/model.hpp"

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

/// A parameter of the model under the name that a file gives it.
struct Expected {
    std::string name;
    const Parameter* parameter = nullptr;
    bool found = false;
    std::int64_t pieces = 0;  ///< tensors of single experts that were found of a stack of all
};

/// The parts of a single expert, and the stack over all experts that a class makes of them:
/// `...experts.7.w1.weight` is half of a row of `...experts.gate_up_proj`.
struct ExpertPart {
    std::string_view part;
    std::string_view stack;
    int parts;  ///< of one expert in the stack
};
constexpr ExpertPart kExpertParts[] = {
    {"w1", "gate_up_proj", 2},        {"w3", "gate_up_proj", 2}, {"w2", "down_proj", 1},
    {"gate_proj", "gate_up_proj", 2}, {"up_proj", "gate_up_proj", 2},
    {"down_proj", "down_proj", 1},
};

/// Module names that the class changed after the files were published.
struct Renamed {
    std::string_view on_disk, in_class;
};
constexpr Renamed kRenamed[] = {{".block_sparse_moe.", ".mlp."}};

std::string name_in_class(std::string name) {
    for (const Renamed& renamed : kRenamed)
        if (const std::size_t at = name.find(renamed.on_disk); at != name.npos)
            name.replace(at, renamed.on_disk.size(), renamed.in_class);
    return name;
}

/// Where a tensor of one expert belongs: `stack` is empty when the name is none of one.
struct ExpertName {
    std::string stack;
    int parts = 1;
};
ExpertName expert_name(std::string_view name) {
    constexpr std::string_view kExperts = ".experts.";
    constexpr std::string_view kWeight = ".weight";
    const std::size_t at = name.rfind(kExperts);
    if (at == name.npos || !name.ends_with(kWeight)) return {};
    std::string_view rest = name.substr(at + kExperts.size());
    rest.remove_suffix(kWeight.size());
    const std::size_t dot = rest.find('.');
    if (dot == 0 || dot == rest.npos || rest.find_first_not_of("0123456789") != dot) return {};
    for (const ExpertPart& part : kExpertParts)
        if (rest.substr(dot + 1) == part.part)
            return {fmt::format("{}{}", name.substr(0, at + kExperts.size()), part.stack), part.parts};
    return {};
}

std::string name_of_copy(const std::string& prefix, std::int64_t layer, std::string_view name) {
    const std::size_t at = prefix.find("{}");
    if (at == std::string::npos) return prefix + std::string(name);
    return fmt::format("{}{}{}{}", prefix.substr(0, at), layer, prefix.substr(at + 2), name);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t distance(std::int64_t total, Elements bytes) {
    return std::abs(total - bytes.count());
}

/// Compares one file with one model, tensor by tensor.
class Comparison {
public:
    Comparison(const Model& model, const WeightFile& file) : model_(model), file_(file) {
        out_.parameters = count_parameters(model).total;
        expect_parameters();
    }

    WeightCheck run() {
        if (file_.format == WeightFormat::gguf) {
            compare_elements();
            return std::move(out_);
        }
        find_further_layers();
        for (const WeightTensor& tensor : file_.tensors) compare(tensor);
        for (const Expected& expected : expected_)
            if (!expected.found) report_missing(expected);
        if (file_.format == WeightFormat::index) compare_total();
        return std::move(out_);
    }

private:
    void expect_parameters() {
        for (const Section& section : model_.sections) {
            std::int64_t layer = section.first_index;
            for (std::int64_t copy = 0; copy < section.count; ++copy)
                for (const int index : section.pattern) {
                    for (const Parameter& p :
                         model_.blocks[static_cast<std::size_t>(index)].parameters)
                        expected_.push_back({name_of_copy(section.prefix, layer,
                                                          p.checkpoint_name.empty()
                                                              ? p.name
                                                              : p.checkpoint_name),
                                             &p});
                    ++layer;
                }
        }
        for (std::size_t i = 0; i < expected_.size(); ++i) {
            const std::string_view name = expected_[i].name;
            by_name_.emplace(name, i);
            // Files of the bare base model lack the first component: "h.0" for "transformer.h.0".
            if (const std::size_t dot = name.find('.'); dot != name.npos)
                without_base_.emplace(name.substr(dot + 1), i);
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

    Expected* find(std::string_view name) {
        if (const auto it = by_name_.find(name); it != by_name_.end()) return &expected_[it->second];
        const auto it = without_base_.find(name);
        return it != without_base_.end() ? &expected_[it->second] : nullptr;
    }

    /// True when the tensor is that of one expert, of which the class stacks all.
    bool compare_expert(const WeightTensor& tensor, const std::string& name) {
        const ExpertName expert = expert_name(name);
        Expected* const stack = expert.stack.empty() ? nullptr : find(expert.stack);
        if (stack == nullptr || stack->found || stack->parameter->shape.size() != 3) return false;
        const std::vector<std::int64_t>& shape = stack->parameter->shape;
        const std::vector<std::int64_t> piece{shape[1] / expert.parts, shape[2]};
        ++out_.matched;
        if (++stack->pieces == shape[0] * expert.parts) stack->found = true;
        own_ += Elements(piece[0]) * piece[1];
        if (file_.format == WeightFormat::safetensors && tensor.shape != piece) {
            --out_.matched;
            differ(tensor.name, fmt::format("expected shape {}; got {}", shape_text(piece),
                                            shape_text(tensor.shape)), {});
        }
        return true;
    }

    void compare(const WeightTensor& tensor) {
        const std::string name = name_in_class(tensor.name);
        Expected* expected = find(name);
        if (expected == nullptr && compare_expert(tensor, name)) return;
        if (expected == nullptr || expected->found) {
            std::string_view reason = reason_of_extra(tensor.name);
            for (const std::string_view layer : further_layers_)
                if (reason.empty() && tensor.name.starts_with(layer)) reason = kFurtherTokens;
            differ(tensor.name, "in the file, not in the model", reason);
            explained_extras_ += !reason.empty();
            return;
        }
        expected->found = true;
        const Elements elements = expected->parameter->elements();
        if (expected->parameter->tied_to.empty()) {
            own_ += elements;
        } else {
            tied_ += elements;
            stored_as_copy_.insert(expected->parameter->tied_to);
        }
        if (file_.format == WeightFormat::safetensors && tensor.shape != expected->parameter->shape) {
            differ(tensor.name, fmt::format("expected shape {}; got {}",
                                            shape_text(expected->parameter->shape),
                                            shape_text(tensor.shape)), {});
            return;
        }
        ++out_.matched;
    }

    void report_missing(const Expected& expected) {
        // A file holds a tied tensor under one of its names.
        if (!expected.parameter->tied_to.empty() || stored_as_copy_.contains(expected.name)) return;
        differ(expected.name,
               expected.pieces == 0 ? "in the model, not in the file"
                                    : fmt::format("expected the tensors of all {} experts; got {} "
                                                  "tensors", expected.parameter->shape.front(),
                                                  expected.pieces), {});
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

    /// A converter renames, splits and joins tensors, but keeps their elements.
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
    std::unordered_map<std::string_view, std::size_t> by_name_, without_base_;
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
