// The quantizations table, and which weights of a model it applies to.

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "model/modules.hpp"

namespace membudget {

namespace {

using detail::ceil_div;
using detail::checked_mul;

/// Packed codes of 4 bits in blocks with a scale each
/// [bitsandbytes functional.py quantize_4bit, nn/modules.py Params4bit].
std::vector<StoredTensor> store_four_bit(std::int64_t out, std::int64_t in, const QuantizationOptions& options) {
    constexpr std::int64_t kNestedBlock = 256;
    const std::int64_t weights = checked_mul(out, in);
    const std::int64_t blocks = ceil_div(weights, options.block_size);
    std::vector<StoredTensor> tensors{{"weight", &dtype::uint8, {ceil_div(weights, 2), 1}, true}};
    if (options.double_quant) {
        tensors.push_back({"weight.absmax", &dtype::uint8, {blocks}, false});
        tensors.push_back({"weight.nested_absmax", &dtype::fp32, {ceil_div(blocks, kNestedBlock)}, false});
        tensors.push_back({"weight.nested_quant_map", &dtype::fp32, {256}, false});
        tensors.push_back({"weight.nested_offset", &dtype::fp32, {}, false});
    } else {
        tensors.push_back({"weight.absmax", &dtype::fp32, {blocks}, false});
    }
    tensors.push_back({"weight.quant_map", &dtype::fp32, {16}, false});
    return tensors;
}

/// A byte per weight and a scale per output [bitsandbytes nn/modules.py Int8Params].
std::vector<StoredTensor> store_int8(std::int64_t out, std::int64_t in, const QuantizationOptions&) {
    return {{"weight", &dtype::int8, {out, in}, true}, {"SCB", &dtype::fp32, {out}, false}};
}

std::int64_t groups_of(std::int64_t in, const QuantizationOptions& options) {
    return options.group_size <= 0 ? 1 : ceil_div(in, options.group_size);
}

/// Eight codes in an int32, packed along the inputs
/// [AutoGPTQ auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py].
std::vector<StoredTensor> store_gptq(std::int64_t out, std::int64_t in, const QuantizationOptions& options) {
    const std::int64_t groups = groups_of(in, options);
    return {{"qweight", &dtype::int32, {ceil_div(in, 8), out}, true},
            {"qzeros", &dtype::int32, {groups, ceil_div(out, 8)}, false},
            {"scales", &dtype::fp16, {groups, out}, false},
            {"g_idx", &dtype::int32, {in}, false}};
}

/// The same packed along the outputs, without an index of groups
/// [AutoAWQ awq/modules/linear/gemm.py WQLinear_GEMM].
std::vector<StoredTensor> store_awq(std::int64_t out, std::int64_t in, const QuantizationOptions& options) {
    const std::int64_t groups = groups_of(in, options);
    return {{"qweight", &dtype::int32, {in, ceil_div(out, 8)}, true},
            {"qzeros", &dtype::int32, {groups, ceil_div(out, 8)}, false},
            {"scales", &dtype::fp16, {groups, out}, false}};
}

constexpr Quantization kQuantizations[] = {
    {"nf4", "4-bit NormalFloat in blocks of 64 with an fp32 scale (QLoRA)", 4, QuantizedProduct::four_bit,
     store_four_bit, true, "Dettmers et al. 2023, arXiv:2305.14314; bitsandbytes functional.py quantize_4bit"},
    {"fp4", "4-bit float in blocks of 64 with an fp32 scale", 4, QuantizedProduct::four_bit, store_four_bit,
     true, "bitsandbytes functional.py quantize_4bit"},
    {"int8", "8-bit integers with an fp32 scale per output (LLM.int8)", 8, QuantizedProduct::int8,
     store_int8, true, "Dettmers et al. 2022, arXiv:2208.07339; bitsandbytes autograd/_functions.py MatMul8bitLt"},
    {"gptq-int4", "4-bit integers in groups with an fp16 scale, a zero point and an index of groups", 4,
     QuantizedProduct::gptq, store_gptq, false,
     "Frantar et al. 2022, arXiv:2210.17323; AutoGPTQ auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py"},
    {"awq-int4", "4-bit integers in groups with an fp16 scale and a zero point", 4,
     QuantizedProduct::awq, store_awq, false,
     "Lin et al. 2023, arXiv:2306.00978; AutoAWQ awq/modules/linear/gemm.py WQLinear_GEMM"},
};
static_assert(names_are_unique(kQuantizations));

/// Full names of modules that transformers leaves as they are
/// [quantizers/base.py get_keys_to_not_convert]: tied ones, the output embedding, and the last module.
std::set<std::string> kept_by_default(const Model& model) {
    std::set<std::string> kept{output_embedding_of(model)};
    const auto module = [](std::string_view parameter) {
        constexpr std::string_view kWeight = ".weight";
        if (parameter.ends_with(kWeight)) parameter.remove_suffix(kWeight.size());
        return std::string(parameter);
    };
    std::string last;
    model.for_each_parameter([&](const std::string& name, const Parameter& parameter, std::int64_t) {
        if (parameter.tied_to.empty()) {
            last = module(name);
            return;
        }
        kept.insert(module(name));
        kept.insert(module(parameter.tied_to));
    });
    kept.insert(last);
    kept.erase("");
    return kept;
}

/// The start of the name up to a dot, or its end [quantizers_utils.py should_convert_module].
bool names_module(std::string_view pattern, std::string_view name) {
    if (name.ends_with(pattern)) return true;
    return name.starts_with(pattern) && (name.size() == pattern.size() || name[pattern.size()] == '.' ||
                                         pattern.ends_with('.'));
}

}  // namespace

Table<Quantization> quantizations() { return Table<Quantization>(kQuantizations); }

Result<Model> with_quantized_base(Model model, const QuantizedBase& base) {
    std::set<std::string> kept;
    if (base.skipped)
        kept.insert(base.skipped->begin(), base.skipped->end());
    else
        kept = kept_by_default(model);
    const std::string family = model.family;
    std::int64_t quantized = 0;
    std::vector<Module> modules;  // of the block that was decided on last
    const auto decide = [&](const Block& block, const std::string& prefix) {
        Decision decision;
        modules = modules_of(block, family);
        for (const Module& module : modules) {
            const std::string name = prefix + module.path;
            const bool linear = module.kind == ModuleKind::linear || module.kind == ModuleKind::transposed;
            const bool chosen = linear && std::none_of(kept.begin(), kept.end(), [&](const std::string& k) {
                                    return names_module(k, name);
                                });
            decision.push_back(chosen ? 1 : 0);
            quantized += chosen ? 1 : 0;
        }
        return decision;
    };
    bool unsimulated = false;
    const Layers layers = std::ranges::any_of(kept, has_digit) ? Layers::apart : Layers::alike;
    rewrite_layers(model, layers, decide, [&](Block& block, const std::string&, const Decision& decision) {
        for (std::size_t i = 0; i < modules.size(); ++i)
            for (const std::size_t index : modules[i].parameters) {
                Parameter& parameter = block.parameters[index];
                parameter.trainable = false;
                parameter.dtype = base.others;
                if (decision[i] == 0 || index != modules[i].weight) continue;
                parameter.dtype = base.compute;
                parameter.quantization = base.row;
                parameter.stored = base.row->store(modules[i].out, modules[i].in, base.options);
                for (const Op& op : block.ops) {
                    // Of a mixture the shared expert is quantized: a router comes first, where it is a linear module.
                    const bool shared = op.kind == OpKind::moe && op.parameters.front() != static_cast<int>(index);
                    unsimulated = unsimulated || (op.kind != OpKind::linear && !shared && uses(op, index));
                }
            }
    });
    settle_ties(model, {});
    if (quantized == 0)
        return Diagnostic{Trouble::invalid, "", "",
                          fmt::format("expected a model with linear modules that can be quantized; got {}",
                                      model.architecture),
                          ""};
    if (unsimulated && model.step_unsupported.empty())
        model.step_unsupported = "quantized weights outside of linear modules";
    return model;
}

}  // namespace membudget
