// Routers of mixtures of experts, each as its class in transformers writes it.

#include "stack/moe_parts.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

/// x[ids]: saves the ids; the gradient is scattered into zeros.
Ref gather(Tape& tape, const Ref& x, const Ref& ids, std::int64_t numel, const char* what) {
    Ref out = tape.fresh(numel, x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.save(ids);
    node.grad(0, "scattered grad");
    node.finish(out);
    return out;
}

namespace {

/// torch.topk: values and ids; the gradient is scattered into zeros.
void top(Mixture& m, const Ref& scores, Ref& values, Ref& ids) {
    ids = m.tape.fresh(m.rows, dtype::int64, "expert ids");
    values = gather(m.tape, scores, ids, m.rows, "top scores");
}

/// Makes `out` the quotient of values and their sums; `numerator` is what autograd keeps of the values.
Ref divided(Tape& tape, const Ref& values, const Ref& sum, const Ref& numerator, Ref out) {
    Tape::NodeBuilder node(tape, "div", {&values, &sum});
    node.save(numerator);
    node.save(sum);
    const std::int16_t scaled = node.temp(byte_count(values.numel(), values.dtype()), "grad of sum");
    node.grad(0);
    node.grad(1, "reduced grad");
    node.drop(scaled);
    node.finish(out);
    return out;
}

/// values /= values.sum(-1, keepdim=True), in place: autograd keeps a copy of the numerator.
Ref normalise(Mixture& m, const Ref& values) {
    Tape& tape = m.tape;
    const Ref sum = tape.mean(values, m.tokens);
    const Ref numerator = tape.grad_enabled()
                              ? tape.fresh(values.numel(), values.dtype(), "numerator")
                              : Ref();
    return divided(tape, values, sum, numerator, tape.alias_of_storage(values));
}

/// values / values.sum(-1, keepdim=True), to which a number is added or which is kept above one: both are kept.
Ref divide_by_sum(Mixture& m, const Ref& values) {
    Tape& tape = m.tape;
    Ref sum = tape.mean(values, m.tokens);
    sum = m.a.router == RouterForm::ernie ? clamp(tape, sum, Bounds::one) : tape.add_scalar(std::move(sum));
    return divided(tape, values, sum, values, tape.fresh(values.numel(), values.dtype(), "quotient"));
}

/// The router's product of its input, in the type of its weight.
Ref project(Mixture& m, Ref x, const Dtype* type = nullptr) {
    Tape& tape = m.tape;
    Adapted adapted(m);
    adapted.activate();
    Ref weight = adapted.get();
    Ref bias = m.a.router == RouterForm::gpt_oss ? m.next_parameter() : Ref();
    if (type != nullptr) {
        x = tape.cast(std::move(x), *type);
        weight = tape.cast(std::move(weight), *type);
    }
    return tape.linear(std::move(x), std::move(weight), std::move(bias), m.tokens, m.hidden, m.a.experts);
}

/// The best of scores to which a correction was added; the weights are the scores themselves.
void top_corrected(Mixture& m, const Ref& scores, Ref& values, Ref& ids) {
    const Ref for_choice =
        m.tape.fresh(detail::checked_mul(m.tokens, m.a.experts), dtype::fp32, "scores for choice");
    top(m, scores, values, ids);
}

// models/mixtral/modeling_mixtral.py MixtralTopKRouter; its kin cast back.
Routing route_softmax(Mixture& m) {
    Tape& tape = m.tape;
    const bool casts_back = m.a.router != RouterForm::mixtral;
    Routing made;
    made.logits = project(m, m.call.in(0));
    const Ref probabilities = tape.softmax(made.logits, dtype::fp32);
    Ref values;
    top(m, probabilities, values, made.ids);
    if (!casts_back || m.a.normalised) values = normalise(m, values);
    made.weights = casts_back ? tape.cast(values, made.logits.dtype()) : values;
    return made;
}

// models/granitemoe/modeling_granitemoe.py: fp32 logits; the weights in the type of the input.
Routing route_granite(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = tape.cast(project(m, m.call.in(0)), dtype::fp32);
    Ref values;
    top(m, made.logits, values, made.ids);
    made.weights = tape.cast(tape.softmax(std::move(values), dtype::fp32), m.call.in(0).dtype());
    return made;
}

// models/gpt_oss/modeling_gpt_oss.py: softmax of the chosen logits, in their type.
Routing route_gpt_oss(Mixture& m) {
    Routing made;
    made.logits = project(m, m.call.in(0));
    Ref values;
    top(m, made.logits, values, made.ids);
    made.weights = m.tape.softmax(values, values.dtype());
    return made;
}

// models/deepseek_v2/modeling_deepseek_v2.py
Routing route_deepseek_v2(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, m.call.in(0), &dtype::fp32);
    const Ref scores = tape.softmax(made.logits, dtype::fp32);
    Ref values;
    top(m, scores, values, made.ids);
    made.weights = tape.mul_scalar(std::move(values));
    return made;
}

// models/deepseek_v3/modeling_deepseek_v3.py: groups of experts, of which some are masked away.
Routing route_deepseek_v3(Mixture& m) {
    Tape& tape = m.tape;
    const std::int64_t all = detail::checked_mul(m.tokens, m.a.experts);
    Routing made;
    made.logits = project(m, m.call.in(0), &dtype::fp32);
    const Ref scores = tape.unary_saving_output(made.logits, "sigmoid");
    Ref values;
    {
        const Ref for_choice = tape.fresh(all, dtype::fp32, "scores for choice");
        const Ref masked = tape.fresh(all, dtype::fp32, "masked scores");
        top(m, scores, values, made.ids);
    }
    if (m.a.normalised) values = normalise(m, values);
    made.weights = tape.mul_scalar(std::move(values));
    return made;
}

// models/minimax_m2/modeling_minimax_m2.py MiniMaxM2TopKRouter, which views its input once more
Routing route_minimax(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, tape.view(m.flat));
    const Ref scores = tape.unary_saving_output(tape.cast(made.logits, dtype::fp32), "sigmoid");
    Ref values;
    top_corrected(m, scores, values, made.ids);
    made.weights = normalise(m, values);
    return made;
}

// models/hy_v3/modeling_hy_v3.py HYV3TopKRouter, models/afmoe/modeling_afmoe.py AfmoeTokenChoiceRouter
Routing route_sigmoid(Mixture& m) {
    Tape& tape = m.tape;
    const bool wide = m.a.router == RouterForm::hunyuan;
    Routing made;
    made.logits = project(m, m.call.in(0), wide ? &dtype::fp32 : nullptr);
    if (!wide) {
        made.logits = tape.cast(std::move(made.logits), dtype::fp32);
        const Ref correction = m.next_parameter();
    }
    const Ref scores = tape.unary_saving_output(made.logits, "sigmoid");
    Ref values;
    top_corrected(m, scores, values, made.ids);
    values = divide_by_sum(m, values);
    made.weights = tape.mul_scalar(std::move(values));
    return made;
}

// models/cohere2_moe/modeling_cohere2_moe.py Cohere2MoeTopKRouter
Routing route_cohere(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, m.call.in(0));
    Ref values;
    top(m, made.logits, values, made.ids);
    if (m.a.router == RouterForm::cohere) {
        values = tape.softmax(std::move(values), dtype::fp32);
    } else {
        values = tape.unary_saving_output(std::move(values), "sigmoid");
        if (m.a.normalised) values = divide_by_sum(m, values);
    }
    made.weights = tape.cast(std::move(values), m.call.in(0).dtype());
    return made;
}

// models/ernie4_5_moe/modeling_ernie4_5_moe.py Ernie4_5_MoeTopKRouter
Routing route_ernie(Mixture& m) {
    Tape& tape = m.tape;
    const Dtype* const autocast = tape.autocast();
    tape.set_autocast(nullptr);
    Routing made;
    made.logits = project(m, m.call.in(0), &dtype::fp32);
    const Ref correction = m.next_parameter();
    const Ref scores = tape.softmax(made.logits, dtype::fp32);
    Ref values;
    top_corrected(m, scores, values, made.ids);
    values = divide_by_sum(m, values);
    tape.set_autocast(autocast);
    made.weights = tape.cast(std::move(values), m.call.in(0).dtype());
    return made;
}

// models/llama4/modeling_llama4.py Llama4Router: the scores of all experts, zero but for the best.
Routing route_llama4(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, m.call.in(0));
    Ref values;
    top(m, made.logits, values, made.ids);
    Ref scores = tape.fresh(made.logits.numel(), made.logits.dtype(), "scores");
    {
        // scatter_: the gradient of the values is gathered.
        Tape::NodeBuilder node(tape, "scatter", {&values});
        node.save(made.ids);
        node.grad(0, "gathered grad");
        node.finish(scores);
    }
    const Dtype& type = scores.dtype();
    Ref wide = tape.cast(scores, dtype::fp32);
    made.weights = tape.cast(tape.unary_saving_output(std::move(wide), "sigmoid"), type);
    return made;
}

/// One of the two choices of sparsemixer: scores far below the best are masked, one of the rest is sampled, and
/// an autograd function of its own gives its weight a gradient.
void choose_one(Mixture& m, const Ref& scores, const Ref& masked, Ref& weight, Ref& chosen) {
    Tape& tape = m.tape;
    const std::int64_t all = scores.numel();
    const Ref far = tape.fresh(all, dtype::boolean, "far below the best");
    Ref gates = tape.fresh(all, masked.dtype(), "masked gates");
    {
        Tape::NodeBuilder node(tape, "masked_fill", {&masked});
        node.save(far);
        node.grad(0);
        node.finish(gates);
    }
    {
        const Ref noise = tape.fresh(all, gates.dtype(), "noise");
        const Ref noisy = tape.fresh(all, gates.dtype(), "noisy gates");
        chosen = tape.fresh(m.tokens, dtype::int64, "chosen expert");
    }
    const Dtype& type = softmax_dtype(m.call, gates);
    gates = tape.softmax(std::move(gates), type);
    const Ref multiplier = gather(tape, gates, chosen, m.tokens, "multiplier");
    weight = tape.fresh(m.tokens, multiplier.dtype(), "weight");
    Tape::NodeBuilder node(tape, "PhimoeMultiplier", {&scores, &multiplier});
    node.save(multiplier);
    node.save(chosen);
    node.save(gates);
    const std::int16_t product = node.temp(byte_count(all, gates.dtype()), "product with the gates");
    node.grad(0);
    node.drop(product);
    node.grad(1, "grad of the multiplier");
    node.finish(weight);
}

// models/phimoe/modeling_phimoe.py PhimoeTopKRouter, sparsemixer
Routing route_phimoe(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, m.call.in(0));
    std::array<Ref, 2> weights, ids;
    choose_one(m, made.logits, made.logits, weights[0], ids[0]);
    Ref rest = tape.fresh(made.logits.numel(), made.logits.dtype(), "scores without the first");
    {
        Tape::NodeBuilder node(tape, "scatter", {&made.logits});
        node.save(ids[0]);
        node.grad(0);
        node.finish(rest);
    }
    choose_one(m, made.logits, rest, weights[1], ids[1]);
    made.weights = tape.cat(weights);
    made.ids = tape.fresh(m.rows, dtype::int64, "expert ids");
    return made;
}

// models/gemma4/modeling_gemma4.py Gemma4TextRouter: of the hidden states before the feed-forward network.
Routing route_gemma4(Mixture& m) {
    Tape& tape = m.tape;
    const Ref projection = m.next_parameter(), scale = m.next_parameter(), of_expert = m.next_parameter();
    const Ref given = tape.view(m.call.in(1));
    Ref x;
    {
        const Ref wide = tape.cast(given, dtype::fp32);
        const Ref shifted = tape.add_scalar(tape.mean(tape.square(wide), m.tokens));
        x = tape.cast(tape.mul(wide, tape.unary_saving_input(shifted, "pow")), given.dtype());
    }
    x = tape.mul_scalar(tape.mul(x, scale));
    Routing made;
    made.logits = tape.linear(x, projection, Ref(), m.tokens, m.hidden, m.a.experts);
    const Ref probabilities = tape.softmax(made.logits, dtype::fp32);
    Ref values;
    top(m, probabilities, values, made.ids);
    values = normalise(m, values);
    made.weights = tape.mul(values, gather(tape, of_expert, made.ids, m.rows, "scale of each expert"));
    m.call.hold_local(made.weights);
    m.call.hold_local(made.ids);
    return made;
}

// models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4TopKRouter, DeepseekV4HashRouter
Routing route_deepseek_v4(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, m.call.in(0));
    Ref scores = tape.unary_saving_input(made.logits, "softplus");
    scores = tape.unary_saving_output(std::move(scores), "sqrt");
    Ref values;
    if (m.a.router == RouterForm::deepseek_v4)
        top_corrected(m, scores, values, made.ids);
    else
        top(m, scores, values, made.ids);
    values = divide_by_sum(m, values);
    made.weights = tape.mul_scalar(std::move(values));
    return made;
}

// models/dbrx/modeling_dbrx.py DbrxRouter, DbrxFFN.route_tokens_to_experts
Routing route_dbrx(Mixture& m) {
    Tape& tape = m.tape;
    Routing made;
    made.logits = project(m, m.call.in(0));
    const Ref scores = tape.softmax(made.logits, made.logits.dtype());
    top(m, scores, made.weights, made.ids);
    if (!m.a.normalised) return made;
    // Autocast of CUDA has norms in fp32; on the CPU, where it has not, the experts' results have another type than
    // the sum they are added to, and the class fails [aten/src/ATen/autocast_mode.h AT_FORALL_FP32_SET_OPT_DTYPE].
    const bool wide = tape.autocast() != nullptr && tape.backend() == Backend::cuda;
    const Ref values = made.weights;
    const Dtype& type = wide ? dtype::fp32 : values.dtype();
    const Ref norm = tape.mean(tape.cast(values, type), m.tokens);
    made.weights = divided(tape, values, norm, values, tape.fresh(values.numel(), type, "quotient"));
    return made;
}

struct Row {
    RouterForm form;
    Routing (*route)(Mixture& m);
};
constexpr Row kRouters[] = {
    {RouterForm::mixtral, route_softmax},         {RouterForm::qwen, route_softmax},
    {RouterForm::granite, route_granite},         {RouterForm::gpt_oss, route_gpt_oss},
    {RouterForm::deepseek_v2, route_deepseek_v2}, {RouterForm::deepseek_v3, route_deepseek_v3},
    {RouterForm::minimax, route_minimax},         {RouterForm::hunyuan, route_sigmoid},
    {RouterForm::afmoe, route_sigmoid},           {RouterForm::cohere, route_cohere},
    {RouterForm::cohere_sigmoid, route_cohere},   {RouterForm::ernie, route_ernie},
    {RouterForm::llama4, route_llama4},           {RouterForm::phimoe, route_phimoe},
    {RouterForm::dbrx, route_dbrx},               {RouterForm::gemma4, route_gemma4},
    {RouterForm::deepseek_v4, route_deepseek_v4}, {RouterForm::deepseek_v4_hashed, route_deepseek_v4},
};

}  // namespace

Routing route(Mixture& mixture) {
    const auto row = std::find_if(std::begin(kRouters), std::end(kRouters),
                                  [&](const Row& r) { return r.form == mixture.a.router; });
    MEMBUDGET_ENSURE(row != std::end(kRouters), "a form of routers lacks a row");
    return row->route(mixture);
}

}  // namespace membudget::kernel
