#include "model/patch_layer.hpp"

#include <string>

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

int attention(BlockBuilder& b, const PatchLayer& plan, int x, int cos, int sin) {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const std::string module(plan.attention);
    const auto project = [&](std::string_view name) {
        return b.linear(x, join(module, name), plan.hidden, true, place);
    };
    const int q = project("q_proj");
    const int k = project("k_proj");
    const int value = b.hold(project("v_proj"));
    const auto sizes = [&](OpAttributes& a) {
        a.heads = a.kv_heads = plan.heads;
        a.head_dim = a.value_dim = plan.hidden / plan.heads;
        a.rotation = plan.rotation;
        a.rotates = true;
    };
    const int rotated_q = b.hold(b.tensor(join(module, "q"), plan.hidden, Rows::patches));
    const int rotated_k = b.hold(b.tensor(join(module, "k"), plan.hidden, Rows::patches));
    OpAttributes& rotary =
        b.op(OpKind::rotary, join(module, "rotary"), place, {q, k, cos, sin}, {rotated_q, rotated_k}).attributes;
    sizes(rotary);
    rotary.rotary_dim = plan.rotary_dim;
    rotary.unbound = true;  // heads are transposed behind the rotation
    const int context = b.tensor(module, plan.hidden, Rows::patches);
    OpAttributes& a = b.op(OpKind::attention, module, place, {rotated_q, rotated_k, value}, {context}).attributes;
    sizes(a);
    a.causal = false;
    a.each_image = plan.packed;
    a.returns_weights = plan.returns_weights;
    return b.linear(context, join(module, plan.out), plan.hidden, true, place);
}

/// residual + scale * x, the sum in the class's order.
int joined(BlockBuilder& b, int residual, int x, std::string_view scale, const std::string& name) {
    if (scale.empty()) return b.add(residual, x, name);
    const int scaled = b.tensor(std::string(scale), b.width(x), Rows::patches);
    b.op(OpKind::multiply, std::string(scale), place::residual, {x}, {scaled},
         {b.parameter(std::string(scale), {b.width(x)}, kVision)});
    return b.add(scaled, residual, name);
}

}  // namespace

Block patch_layer(const PatchLayer& plan, const PatchTables& tables, const std::vector<Tensor>& shared) {
    BlockBuilder b("vision layer");
    for (const std::string_view norm : plan.norms) b.norm_weights(norm, plan.hidden, norms::layer, kVision);
    b.linear_weights(join(plan.attention, plan.out), plan.hidden, plan.hidden, true, kVision);
    const int x = b.input(plan.hidden, Rows::patches);
    const int cos = b.shared(tables.cos, shared), sin = b.shared(tables.sin, shared);
    int y = -1;
    {
        const auto argument = b.scope();  // the norm's result, until the function it is given to returns
        y = b.hold(b.norm(x, plan.norms[0], norms::layer));
        y = attention(b, plan, y, cos, sin);
    }
    const int residual = b.hold(joined(b, x, y, plan.scales[0], join(plan.attention, "residual")));
    {
        const auto argument = b.scope();
        const Place place = in_vision(place::mlp);
        y = b.hold(b.norm(residual, plan.norms[1], norms::layer));
        y = b.linear(y, "mlp.fc1", plan.width, true, place);
        y = b.activation(y, join("mlp", plan.act_name), plan.act, place);
        y = b.linear(y, "mlp.fc2", plan.hidden, true, place);
    }
    y = joined(b, residual, y, plan.scales[1], "mlp.residual");
    b.set_checkpointable();
    return std::move(b).finish(y);
}

}  // namespace membudget
