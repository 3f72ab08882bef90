// A mixture of experts as one op, with its parameters.

#include <utility>

#include "model/decoder_layer.hpp"

namespace membudget {

int mixture_of_experts(BlockBuilder& builder, const MlpPlan& mlp, int x, std::int64_t hidden, bool keeps_logits) {
    const MlpPlan::Experts& e = mlp.experts;
    const auto in_mlp = [&](std::string_view name) { return join(mlp.module, name); };
    const auto matrices = [&](std::string_view name, std::int64_t in, std::int64_t out) {
        std::vector<std::int64_t> shape =
            e.transposed ? std::vector<std::int64_t>{e.count, in, out}
                         : std::vector<std::int64_t>{e.count, out, in};
        return builder.parameter(in_mlp(join(e.experts, name)), std::move(shape),
                                  Component::experts);
    };
    const auto router = [&] {
        std::vector<int> made = builder.linear_weights(in_mlp(e.router), hidden, e.count, e.router_bias, Component::router);
        if (e.wide_router) builder.parameter_named(join(in_mlp(e.router), "weight")).dtype = &dtype::fp32;
        if (e.correction.empty()) return made;
        const std::string name = in_mlp(e.correction);
        const std::vector<std::int64_t> shape =
            e.flat_correction ? std::vector<std::int64_t>{e.count} : std::vector<std::int64_t>{1, e.count};
        made.push_back(builder.parameter(name, shape, Component::router));
        builder.parameter_named(name).trainable = false;
        builder.parameter_named(name).dtype = &dtype::fp32;
        return made;
    };
    const auto stacks = [&] {
        if (e.flat) {
            std::vector<int> flat;
            for (const std::string_view name : {"mlp.w1", "mlp.v1", "mlp.w2"})
                flat.push_back(builder.parameter(in_mlp(join(e.experts, name)),
                                                 {detail::checked_mul(e.count, e.width), hidden}, Component::experts));
            return flat;
        }
        std::vector<int> made{matrices("gate_up_proj", hidden, 2 * e.width)};
        const auto bias = [&](std::string_view name, std::int64_t width) {
            if (!e.biased) return;
            made.push_back(
                builder.parameter(in_mlp(join(e.experts, name)), {e.count, width}, Component::experts));
        };
        bias("gate_up_proj_bias", 2 * e.width);
        made.push_back(matrices("down_proj", e.width, hidden));
        bias("down_proj_bias", hidden);
        return made;
    };
    const auto shared = [&] {
        std::vector<int> made;
        if (e.shared_width == 0) return made;
        const auto projection = [&](std::string_view name, std::int64_t in, std::int64_t out) {
            const std::vector<int> weights =
                builder.linear_weights(join(in_mlp(e.shared), name), in, out, e.shared_bias, Component::mlp);
            made.insert(made.end(), weights.begin(), weights.end());
        };
        if (!e.shared_gate_up.empty()) {
            projection(e.shared_gate_up, hidden, 2 * e.shared_width);
        } else {
            projection("gate_proj", hidden, e.shared_width);
            projection("up_proj", hidden, e.shared_width);
        }
        projection("down_proj", e.shared_width, hidden);
        if (e.shared_gate)
            made.push_back(builder.parameter(in_mlp(join(e.shared_gate_name, "weight")), {1, hidden}, Component::router));
        return made;
    };
    // Parameters of the block are in the order in which the class registers them, those of the op in that of use.
    std::vector<int> parameters, of_experts, of_shared;
    if (e.router_last) of_experts = stacks();
    parameters = router();
    if (e.sharing == SharedExpert::between) of_shared = shared();
    if (of_experts.empty()) of_experts = stacks();
    if (of_shared.empty()) of_shared = shared();
    parameters.insert(parameters.end(), of_experts.begin(), of_experts.end());
    parameters.insert(parameters.end(), of_shared.begin(), of_shared.end());
    const int out = builder.tensor(std::string(mlp.module), hidden);
    OpAttributes& attributes = builder.op(OpKind::moe, std::string(mlp.module), place::mlp,
                                           {x}, {out}, std::move(parameters)).attributes;
    attributes.experts = e.count;
    attributes.experts_per_token = e.per_token;
    attributes.expert_width = e.width;
    attributes.shared_width = e.shared_width;
    attributes.act = mlp.act;
    attributes.router = e.form;
    attributes.normalised = e.normalised;
    attributes.expert_bias = e.biased;
    attributes.shared = e.sharing;
    attributes.jittered = e.jittered;
    attributes.keeps_logits = keeps_logits;
    attributes.shared_gate = e.shared_gate;
    attributes.shared_bias = e.shared_bias;
    attributes.shared_fused = !e.shared_gate_up.empty();
    attributes.scales_routed = e.scaled;
    attributes.bounded = mlp.bounded;
    attributes.looped = e.looped;
    return out;
}

}  // namespace membudget
