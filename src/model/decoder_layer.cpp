#include "model/decoder_layer.hpp"

#include <fmt/format.h>

namespace membudget {
namespace {

/// Builds the layers of one plan: the plan and the shared tensors are the same for all of them.
class LayerBuilder {
public:
    LayerBuilder(const DecoderPlan& plan, const LayerPlan& layer, const SharedTensors& ids,
                 const std::vector<Tensor>& shared)
        : plan_(plan), layer_(layer), ids_(ids), shared_(shared), builder_("decoder layer") {}

    Block build();

private:
    /// With a residual, which the function adds to its result before it returns.
    int attention(int x, int residual = -1);
    int mlp(int x, int residual = -1);
    int adding_layer(int x, bool attention_adds);
    int falcon_layer(int x);
    int plain_mlp(int x);
    int gated_mlp(int x);
    int experts(int x) { return mixture_of_experts(builder_, layer_.mlp, x, plan_.hidden, plan_.router_loss); }
    void projections(int x, int& q, int& k, int& v);
    void normalise(int& q, int& k, NormTime now);
    int head_norm(int x, std::string_view name, std::int64_t heads);
    int gated_context(int context, int gate);
    int clip(int x, bool in_place);

    int norm(int x, int which) { return builder_.norm(x, layer_.norms[which], plan_.norm); }
    int shared(int index) {
        return builder_.shared(index, shared_);
    }
    /// n(x), then f of it; the norm's result keeps a name until f returns.
    template <class Function>
    int after_norm(int x, int which, Function&& function) {
        if (layer_.names_norms || (which == 0 && layer_.names_first_norm)) return function(builder_.hold(norm(x, which)));
        const auto name = builder_.scope();
        return function(builder_.hold(norm(x, which)));
    }
    int attention_of_norm(int x) {
        return after_norm(x, 0, [this](int n) { return attention(n); });
    }
    int mlp_of_norm(int x, int which) {
        if (layer_.mlp.inlined) return mlp(norm(x, which));
        return after_norm(x, which, [this](int n) { return mlp(n); });
    }
    int named(int x) { return layer_.names_results ? builder_.hold(x) : x; }
    /// What the layer does with the result of a sublayer before it adds it.
    int finished(int x, std::string_view module, Place place) {
        if (layer_.scales_results) x = builder_.scale(x, "residual_multiplier", place::residual);
        return module.empty() ? x : builder_.dropout(x, module, layer_.dropout, place);
    }
    std::string in_attention(std::string_view name) const {
        return join(layer_.attention.module, name);
    }
    std::string in_mlp(std::string_view name) const { return join(layer_.mlp.module, name); }

    const DecoderPlan& plan_;
    const LayerPlan& layer_;
    const SharedTensors& ids_;
    const std::vector<Tensor>& shared_;
    BlockBuilder builder_;
};

int LayerBuilder::head_norm(int x, std::string_view name, std::int64_t heads) {
    const AttentionPlan& a = layer_.attention;
    const std::string path = in_attention(name);
    if (a.qk_norm != QkNorm::listed) {
        const int out = builder_.norm(x, path, a.qk_norm_kind, place::attention);
        if (a.qk_norm == QkNorm::per_head) builder_.normalise_heads(heads, {a.head_dim});
        if (a.qk_norm == QkNorm::each_head) builder_.normalise_heads(heads, {heads, a.head_dim});
        return out;
    }
    std::vector<int> weights;
    for (std::int64_t head = 0; head < heads; ++head)
        for (const int weight : builder_.norm_weights(fmt::format("{}.norms.{}", path, head),
                                                      a.head_dim, a.qk_norm_kind))
            weights.push_back(weight);
    const int out = builder_.tensor(path, builder_.width(x));
    OpAttributes& attributes = builder_.op(a.qk_norm_kind.kind, path, place::attention, {x}, {out},
                                           std::move(weights)).attributes;
    attributes.heads = heads;
    attributes.norm = a.qk_norm_kind.style;
    attributes.listed = true;
    return out;
}

void LayerBuilder::normalise(int& q, int& k, NormTime now) {
    const AttentionPlan& a = layer_.attention;
    if (a.qk_norm == QkNorm::none || a.norm_time != now) return;
    q = head_norm(q, a.q_norm, a.heads);
    k = head_norm(k, a.k_norm, a.kv_heads);
}

int LayerBuilder::clip(int x, bool in_place) {
    const int clipped = builder_.tensor(in_attention("clip"), builder_.width(x));
    builder_.op(OpKind::clip, in_attention("clip"), place::attention, {x}, {clipped}).attributes.in_place = in_place;
    return clipped;
}

void LayerBuilder::projections(int x, int& q, int& k, int& v) {
    const AttentionPlan& a = layer_.attention;
    const std::int64_t q_width = a.heads * a.head_dim;
    const std::int64_t kv_width = a.kv_heads * a.head_dim;
    const std::int64_t value_width = a.kv_heads * (a.value_dim > 0 ? a.value_dim : a.head_dim);
    if (!a.qkv.empty()) {
        // The fused result is viewed, never copied; the views keep it alive.
        int fused = builder_.linear(x, in_attention(a.qkv), q_width + 2 * kv_width, a.bias, place::attention);
        if (a.clips) fused = clip(fused, false);
        const std::int64_t cut_width = a.spreads_keys ? q_width : kv_width;
        const auto parts = builder_.split(fused, in_attention("split"),
                                          {q_width, cut_width, cut_width}, place::attention);
        OpAttributes& attributes = builder_.last_op().attributes;
        attributes.sliced = a.sliced;
        attributes.form = a.form;
        attributes.heads = a.heads;
        attributes.kv_heads = a.kv_heads;
        q = parts[0];
        k = parts[1];
        v = parts[2];
        builder_.hold(fused);
    } else {
        q = builder_.linear(x, in_attention(a.q), a.gated ? 2 * q_width : q_width, a.bias,
                            place::attention);
        if (a.scales_query) q = builder_.scale(q, in_attention("scaling"), place::attention);
        const bool at_once = a.qk_norm != QkNorm::none && a.norm_time == NormTime::with_projection;
        if (at_once) q = head_norm(q, a.q_norm, a.heads);
        k = builder_.linear(x, in_attention(a.k), kv_width, a.bias, place::attention);
        if (at_once) k = head_norm(k, a.k_norm, a.kv_heads);
        v = builder_.linear(x, in_attention(a.v), value_width, a.bias, place::attention);
    }
    if (a.clips && a.qkv.empty())
        for (int* const part : {&q, &k, &v}) *part = clip(*part, true);
    normalise(q, k, NormTime::after_projections);
}

/// context * sigmoid(gate): the heads' results keep their name until the product takes it.
int LayerBuilder::gated_context(int context, int gate) {
    const int open = builder_.activation(gate, in_attention("gate_act"), Act::sigmoid, place::attention);
    const int product = builder_.tensor(in_attention("gated"), builder_.width(context));
    builder_.op(OpKind::multiply, in_attention("gated"), place::attention, {context, open}, {product});
    return product;
}

int LayerBuilder::attention(int x, int residual) {
    const AttentionPlan& a = layer_.attention;
    const auto function = builder_.scope();
    if (a.weights) {
        a.weights(builder_);
        return x;
    }
    if (a.build) {
        const auto table = static_cast<std::size_t>(a.rotary);
        const int mask = shared(a.window > 0 ? ids_.window_mask : ids_.full_mask);
        return a.build(builder_, x, shared(ids_.cos[table]), shared(ids_.sin[table]), mask);
    }
    if (plan_.unused_tables) {  // arguments all the same
        shared(ids_.cos[0]);
        shared(ids_.sin[0]);
    }
    std::vector<int> parameters;
    if (a.sinks)
        parameters.push_back(
            builder_.parameter(in_attention("sinks"), {a.heads}, Component::attention));
    int q = -1;
    int k = -1;
    int v = -1;
    projections(x, q, k, v);
    const int gate = a.gate.empty() ? -1
                                    : builder_.hold(builder_.linear(x, in_attention(a.gate), a.heads * (a.gate_per_head ? 1 : a.head_dim),
                                                                    false, place::attention));

    OpAttributes attributes;
    attributes.heads = a.heads;
    attributes.kv_heads = a.spreads_keys ? a.heads : a.kv_heads;
    attributes.head_dim = a.head_dim;
    attributes.value_dim = a.value_dim > 0 ? a.value_dim : a.head_dim;
    attributes.rotary_dim = a.rotary_dim;
    attributes.rotation = a.rotation;
    attributes.form = a.form;
    // A rotation of a part is concatenated with the rest, head by head; GPT-J transposes after it.
    attributes.head_major =
        a.rotation == Rotation::chunks ||
        (a.rotary >= 0 && a.rotary_dim > 0 && a.rotation != Rotation::pairs_apart && a.rotation != Rotation::pairs_apart_promoted);
    if (a.rotary >= 0) {
        const auto table = static_cast<std::size_t>(a.rotary);
        const int cos = shared(ids_.cos[table]);
        const int sin = shared(ids_.sin[table]);
        const int rotated_q = builder_.tensor(in_attention("query"), builder_.width(q));
        const int rotated_k = builder_.tensor(in_attention("key"), builder_.width(k));
        attributes.axes = plan_.position_axes;
        builder_.op(OpKind::rotary, in_attention("rotary"), place::attention, {q, k, cos, sin},
                    {rotated_q, rotated_k}).attributes = attributes;
        q = rotated_q;
        k = rotated_k;
    }
    normalise(q, k, NormTime::after_rotation);
    if (a.by_position) {
        q = builder_.scale(q, in_attention("attn_scales"), place::attention);
        builder_.last_op().attributes.by_position = true;
    }
    if (a.scales_values) v = builder_.scale(v, in_attention("v_scale"), place::attention);
    builder_.hold(q);
    builder_.hold(k);
    builder_.hold(v);

    attributes.rotates = a.rotary >= 0;
    attributes.window = a.window;
    attributes.softcap = a.softcap;
    attributes.dropout = a.dropout;
    attributes.bias = a.alibi;
    attributes.softmax_in_dtype = a.softmax_in_dtype;
    attributes.cast_to_values = a.cast_to_values;
    int mask = shared(a.window > 0 ? ids_.window_mask : ids_.full_mask);
    if (a.mask) {
        const auto table = static_cast<std::size_t>(a.rotary);
        mask = builder_.hold(a.mask(builder_, x, q, shared(ids_.cos[table]), shared(ids_.sin[table]), mask));
    }
    int context = builder_.tensor(in_attention("attention"), a.heads * attributes.value_dim);
    std::vector<int> inputs{q, k, v, mask};
    if (ids_.alibi >= 0) inputs.push_back(shared(ids_.alibi));
    builder_.op(OpKind::attention, in_attention("attention"), place::attention, std::move(inputs),
                {context}, std::move(parameters)).attributes = attributes;
    if (gate >= 0) context = gated_context(context, gate);
    const int result =
        a.result_norm.empty() ? context : builder_.norm(context, in_attention(a.result_norm), plan_.norm, place::attention);
    int out = builder_.linear(result, in_attention(a.o), plan_.hidden, a.output_bias,
                              place::attention);
    if (!a.output_dropout.empty())
        out = builder_.dropout(out, in_attention(a.output_dropout), a.output_dropout_p,
                               place::attention);
    if (residual >= 0) {
        out = finished(out, layer_.attention_dropout, place::attention);
        out = builder_.add(residual, out, "attention_residual");
    }
    return out;
}

int LayerBuilder::mlp(int x, int residual) {
    const MlpPlan& m = layer_.mlp;
    if (m.weights) {
        m.weights(builder_);
        return x;
    }
    if (m.experts.count > 0)
        return layer_.beside_mlp ? layer_.beside_mlp(builder_, x, builder_.hold(experts(x))) : experts(x);
    const auto function = builder_.scope();
    int out = m.gated ? gated_mlp(x) : plain_mlp(x);
    if (!m.output_dropout.empty())
        out = builder_.dropout(out, in_mlp(m.output_dropout), m.output_dropout_p, place::mlp);
    if (residual >= 0) {
        out = finished(out, layer_.mlp_dropout, place::mlp);
        out = builder_.add(residual, out, "mlp_residual");
    }
    return out;
}

int LayerBuilder::plain_mlp(int x) {
    const MlpPlan& m = layer_.mlp;
    const auto function = builder_.scope();
    const int up = builder_.linear(x, in_mlp(m.up), m.width, m.bias, place::mlp);
    int active = builder_.activation(up, in_mlp(m.act_name), m.act, place::mlp);
    if (m.act == Act::xielu)
        for (const std::string_view alpha : {"alpha_p", "alpha_n"})
            builder_.last_op().parameters.push_back(
                builder_.parameter(join(in_mlp(m.act_name), alpha), {1}, Component::mlp));
    if (!m.inner_dropout.empty())
        active = builder_.dropout(active, in_mlp(m.inner_dropout), m.inner_dropout_p, place::mlp);
    // A linear module written as a product and a sum holds its input until both are done.
    if (plan_.matmul_linear) builder_.hold(active);
    return builder_.linear(active, in_mlp(m.down), plan_.hidden, m.bias, place::mlp);
}

int LayerBuilder::gated_mlp(int x) {
    const MlpPlan& m = layer_.mlp;
    int gate = -1;
    int up = -1;
    if (!m.gate_up.empty()) {
        const int fused = builder_.linear(x, in_mlp(m.gate_up), 2 * m.width, m.bias, place::mlp);
        const auto parts =
            builder_.split(fused, in_mlp("split"), {m.width, m.width}, place::mlp);
        gate = builder_.hold(parts[0]);
        up = parts[1];
        if (m.act == Act::swigluoai) builder_.hold(fused);
    } else {
        gate = builder_.linear(x, in_mlp(m.gate), m.width, m.bias, place::mlp);
        up = builder_.linear(x, in_mlp(m.up), m.width, m.bias, place::mlp);
    }
    int product = builder_.gated_activation(gate, up, in_mlp(m.act_name), m.act, place::mlp);
    builder_.last_op().attributes.bounded = m.bounded;
    if (!m.inner_norm.empty()) product = builder_.norm(product, in_mlp(m.inner_norm), plan_.norm, place::mlp);
    return builder_.linear(product, in_mlp(m.down), plan_.hidden, m.bias, place::mlp);
}

int LayerBuilder::adding_layer(int x, bool attention_adds) {
    BlockBuilder& b = builder_;
    // One name, `layernorm_output`, is bound to both norms in turn.
    const int first = norm(x, 0);
    int h = -1;
    if (attention_adds) {
        h = attention(first, x);
    } else {
        const int a = b.hold(attention(first));
        h = b.add(finished(a, layer_.attention_dropout, place::attention), x,
                  "attention_residual");
    }
    const int second = b.hold(norm(h, 1));
    b.last_op().inputs.push_back(first);  // the name is bound anew when the second norm has run
    return mlp(second, h);
}

int LayerBuilder::falcon_layer(int x) {
    BlockBuilder& b = builder_;
    const bool two_norms = !layer_.norms[1].empty();
    const int n1 = b.hold(norm(x, 0));
    const int n2 = two_norms ? b.hold(norm(x, 1)) : n1;
    const int a = b.hold(attention(n1));
    const int m = b.hold(mlp(n2));
    const int sum = b.hold(b.add(m, a, "parallel_residual"));
    b.last_op().attributes.in_place = true;
    return b.add(x, finished(sum, layer_.mlp_dropout, place::mlp), "residual");
}

Block LayerBuilder::build() {
    BlockBuilder& b = builder_;
    if (plan_.transposed_linear) b.transpose_linears();
    if (plan_.matmul_linear) b.write_out_linears();
    const int x = b.input(plan_.hidden);
    const int own = layer_.input.take ? layer_.input.take(b) : -1;
    const auto attended = [&](int value) {
        return finished(value, layer_.attention_dropout, place::attention);
    };
    const auto fed = [&](int value) { return finished(value, layer_.mlp_dropout, place::mlp); };
    int out = -1;
    switch (layer_.arrangement) {
        case Arrangement::pre_norm: {
            const int a = named(attended(attention_of_norm(x)));
            const int h = b.hold(b.add(x, a, "attention_residual"));
            const int m = named(fed(mlp_of_norm(h, 1)));
            out = b.add(h, m, "mlp_residual");
            break;
        }
        case Arrangement::sandwich: {
            const auto residual = b.scope();  // a name that may be bound anew
            const int a = norm(attention_of_norm(x), 1);
            const int h = b.hold(b.add(x, a, "attention_residual"));
            int m = mlp_of_norm(h, 2);
            if (layer_.beside_residual) m = layer_.beside_residual(b, h, m);
            out = b.add(h, norm(m, 3), "mlp_residual");
            break;
        }
        case Arrangement::inner_norm: {
            const int a = norm(attention(x), 0);
            const int h = b.hold(b.add(x, a, "attention_residual"));
            const int m = norm(mlp(h), 1);
            out = b.add(h, m, "mlp_residual");
            break;
        }
        case Arrangement::post_norm: {
            const int a = attended(attention(x));
            const int h = b.hold(norm(b.add(x, a, "attention_residual"), 0));
            const int m = fed(mlp(h));
            out = norm(b.add(h, m, "mlp_residual"), 1);
            break;
        }
        case Arrangement::parallel: {
            const int n = b.hold(norm(x, 0));
            const int a = b.hold(attended(attention(n)));
            const int m = b.hold(fed(mlp(n)));
            const int sum = b.add(a, m, "parallel_residual");
            out = b.add(sum, x, "residual");
            break;
        }
        case Arrangement::parallel_two: {
            const int a = b.hold(attended(attention_of_norm(x)));
            const int m = b.hold(fed(mlp_of_norm(x, 1)));
            const int sum = b.add(m, a, "parallel_residual");
            out = b.add(sum, x, "residual");
            break;
        }
        case Arrangement::adds_inside: out = adding_layer(x, true); break;
        case Arrangement::mlp_adds: out = adding_layer(x, false); break;
        case Arrangement::falcon: out = falcon_layer(x); break;
        case Arrangement::mixer_only:
            out = b.add(x, attended(attention_of_norm(x)), "residual");
            break;
    }
    if (own >= 0) out = layer_.input.use(b, out, own);
    if (layer_.scales_output) {
        out = b.scale(out, "layer_scalar", place::residual);
        b.last_op().attributes.in_place = true;
    }
    if (layer_.extra) layer_.extra(b);
    b.set_checkpointable();
    return std::move(b).finish(out);
}

}  // namespace

Block build_decoder_layer(const DecoderPlan& plan, const LayerPlan& layer, const SharedTensors& ids,
                          const std::vector<Tensor>& shared) {
    return layer.build ? build_whole_layer(plan, layer, ids, shared) : LayerBuilder(plan, layer, ids, shared).build();
}

}  // namespace membudget
