// Mixtures of experts: experts and shared experts, as transformers 5 writes them. The experts of
// one device see tokens x experts per token rows together, however unevenly they are routed: an
// imbalance changes nothing here, but for the loop over experts, whose transients follow the busiest.

#include "stack/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "stack/moe_parts.hpp"

namespace membudget::kernel {

namespace {

/// input @ weight by groups of rows: not known to autocast, so the input takes the weight's type.
Ref grouped_product(Mixture& m, Ref x, const Ref& weight, const Ref& offsets, std::int64_t width) {
    Tape& tape = m.tape;
    x = tape.cast(std::move(x), weight.dtype());
    Ref out = tape.fresh(detail::checked_mul(m.rows, width), x.dtype(), "output");
    Tape::NodeBuilder node(tape, "grouped_mm", {&x, &weight});
    if (node.needs(1)) node.save(x);
    if (node.needs(0)) node.save(weight);
    node.save(offsets);
    node.grad(1, "grad weight");
    node.grad(0);
    node.finish(out);
    return out;
}

/// out.add_(bias[expert ids]): the gathered bias is a name of the function.
Ref add_expert_bias(Mixture& m, Ref out, const Ref& bias, const Ref& ids, Ref& selected) {
    if (!bias) return out;
    selected = gather(m.tape, bias, ids, out.numel(), "bias of each row");
    return m.tape.add_in_place(std::move(out), selected);
}

/// DeepSeek-V4 bounds both, in shared experts too [modeling_deepseek_v4.py DeepseekV4Experts._apply_gate].
bool clamps(const Mixture& m) {
    return m.a.router == RouterForm::deepseek_v4 || m.a.router == RouterForm::deepseek_v4_hashed;
}

/// act(gate) * up of the two halves of the projection.
Ref gate_halves(Mixture& m, const Ref& both) {
    Tape& tape = m.tape;
    const std::int64_t half = both.numel() / 2;
    if (m.a.router == RouterForm::gpt_oss) {
        // Halves interleaved.
        Ref gate = tape.slice(both, half), up = tape.slice(both, half), glu;
        return gated_by_sigmoid(tape, gate, up, glu);
    }
    const std::int64_t halves[] = {half, half};
    std::vector<Ref> parts = tape.chunk(both, halves);
    if (m.a.act == Act::swigluoai) {
        Ref glu;
        return gated_by_sigmoid(tape, parts[0], parts[1], glu);
    }
    if (clamps(m)) {
        const Ref gate = clamp(tape, parts[0], Bounds::one), up = clamp(tape, parts[1], Bounds::both);
        return tape.mul(apply_activation(tape, m.a.act, gate), up);
    }
    if (m.a.bounded) {
        const Ref gate = clamp(tape, apply_activation(tape, m.a.act, parts[0]), Bounds::one);
        return tape.mul(gate, clamp(tape, parts[1], Bounds::both));
    }
    const Ref active = apply_activation(tape, m.a.act, parts[0]);
    return tape.mul(active, parts[1]);
}

/// integrations/moe.py grouped_mm_experts_forward.
Ref grouped_experts(Mixture& m, const Ref& x, const Routing& routing) {
    Tape& tape = m.tape;
    const Dtype& integer = dtype::int64;
    const bool biased = m.a.expert_bias;
    Adapted gate_up(m);
    const Ref gate_up_bias = biased ? m.next_parameter() : Ref();
    Adapted down(m);
    const Ref down_bias = biased ? m.next_parameter() : Ref();
    down.activate();  // the outer wrapper
    gate_up.activate();

    const Ref sorted_ids = tape.fresh(m.rows, integer, "sorted expert ids");
    const Ref order = tape.fresh(m.rows, integer, "order of rows");
    Ref selected;
    {
        const Ref token_of = tape.fresh(m.rows, integer, "token of each row");
        selected = gather(tape, x, token_of, detail::checked_mul(m.rows, m.hidden), "rows by expert");
    }
    const Ref sample_weights = gather(tape, routing.weights, order, m.rows, "weight of each row");
    const Ref counted = tape.fresh(
        m.rows, tape.backend() == Backend::cpu ? dtype::fp32 : dtype::int32, "counted ids");
    const Ref offsets = tape.fresh(m.a.experts, dtype::int32, "offsets of groups");

    Ref selected_bias;
    Ref out = grouped_product(m, selected, gate_up.get(), offsets, 2 * m.a.expert_width);
    out = add_expert_bias(m, std::move(out), gate_up_bias, sorted_ids, selected_bias);
    out = gate_halves(m, out);
    out = grouped_product(m, std::move(out), down.get(), offsets, m.hidden);
    out = add_expert_bias(m, std::move(out), down_bias, sorted_ids, selected_bias);

    Ref weighted = tape.mul(out, sample_weights);
    const Ref inverse = tape.fresh(m.rows, integer, "inverse order");
    weighted = gather(tape, weighted, inverse, weighted.numel(), "rows by token");
    Ref sum = tape.sum_to(weighted, detail::checked_mul(m.tokens, m.hidden));
    return tape.cast(std::move(sum), x.dtype());
}

/// weight[expert]: the gradient is that of the whole tensor, zero but for one expert.
Ref of_expert(Mixture& m, const Ref& weights) {
    return weights ? m.tape.slice(weights, weights.numel() / m.a.experts) : Ref();
}

/// Rows of the busiest expert: at most every token, as a token has no expert twice.
std::int64_t busiest_rows(const Mixture& m) {
    const double share = static_cast<double>(m.rows) / static_cast<double>(m.a.experts);
    return std::min(m.tokens, static_cast<std::int64_t>(std::ceil(share * m.call.imbalance)));
}

/// What the experts of a loop multiply with; DBRX has a matrix of its own for `up`.
struct LoopedWeights {
    explicit LoopedWeights(Mixture& m)
        : gate_up(m), up(m.a.router == RouterForm::dbrx ? m.next_parameter() : Ref()),
          gate_up_bias(m.a.expert_bias ? m.next_parameter() : Ref()), down(m),
          down_bias(m.a.expert_bias ? m.next_parameter() : Ref()) {
        down.activate();  // the outer wrapper
        gate_up.activate();
    }
    Adapted gate_up;
    Ref up, gate_up_bias;
    Adapted down;
    Ref down_bias;
};

/// One expert over its rows, which `state` is left bound to.
Ref run_expert(Mixture& m, LoopedWeights& weights, const Ref& x, const Ref& token_ids, std::int64_t rows,
               Ref& state) {
    Tape& tape = m.tape;
    state = gather(tape, x, token_ids, detail::checked_mul(rows, m.hidden), "rows of the expert");
    Ref both = tape.linear(state, of_expert(m, weights.gate_up.get()), of_expert(m, weights.gate_up_bias), rows, m.hidden,
                           2 * m.a.expert_width);
    Ref product = gate_halves(m, both);
    both.reset();
    return tape.linear(std::move(product), of_expert(m, weights.down.get()), of_expert(m, weights.down_bias), rows,
                       m.a.expert_width, m.hidden);
}

/// The same for Step 3.7 [models/step3p7/modeling_step3p7.py Step3p7Experts.forward]: one name for what comes of the
/// gate and for the result, which keeps the last expert's until then; none for the rows.
Ref run_step_expert(Mixture& m, LoopedWeights& weights, const Ref& x, const Ref& token_ids, std::int64_t rows,
                    Ref& current) {
    Tape& tape = m.tape;
    {
        Ref state = gather(tape, x, token_ids, detail::checked_mul(rows, m.hidden), "rows of the expert");
        const Ref both = tape.linear(std::move(state), of_expert(m, weights.gate_up.get()), Ref(), rows, m.hidden,
                                     2 * m.a.expert_width);
        current = gate_halves(m, both);
    }
    return tape.linear(current, of_expert(m, weights.down.get()), Ref(), rows, m.a.expert_width, m.hidden);
}

/// The same for DBRX [models/dbrx/modeling_dbrx.py DbrxExperts.forward, DbrxExpertGLU.forward]: each expert's
/// weights are taken from a view of all.
Ref run_dbrx_expert(Mixture& m, LoopedWeights& weights, const Ref& x, const Ref& token_ids,
                    std::int64_t rows) {
    Tape& tape = m.tape;
    const std::int64_t width = m.a.expert_width;
    const Ref up_weight = of_expert(m, tape.view(weights.up));
    const Ref gate_weight = of_expert(m, tape.view(weights.gate_up.get()));
    const Ref down_weight = of_expert(m, tape.view(weights.down.get()));
    const Ref state = gather(tape, x, token_ids, detail::checked_mul(rows, m.hidden), "rows of the expert");
    Ref gate = tape.linear(state, gate_weight, Ref(), rows, m.hidden, width);
    const Ref up = tape.linear(state, up_weight, Ref(), rows, m.hidden, width);
    gate = apply_activation(tape, m.a.act, gate);
    const Ref product = tape.mul(gate, up);
    return tape.matmul(product, down_weight, detail::checked_mul(rows, m.hidden));
}

/// The experts' own forward: one after the other, results added in place. Any of them can be the busiest;
/// as the last one it weighs most, with what all others saved beside it.
Ref looped_experts(Mixture& m, const Ref& x, const Routing& routing) {
    Tape& tape = m.tape;
    LoopedWeights all(m);
    const Ref mask = tape.fresh(detail::checked_mul(m.rows, m.a.experts + 1), dtype::int64,
                                "one-hot expert ids");
    Ref out = tape.fresh(x.numel(), x.dtype(), "output");
    const std::int64_t last = m.a.experts - 1;
    const std::int64_t of_last = m.call.imbalance > 1 ? busiest_rows(m) : m.rows / m.a.experts;
    std::int64_t left = m.rows - of_last;  // shared by those before it
    const bool step = m.a.looped && !all.up;
    Ref current;
    for (std::int64_t e = 0; e < m.a.experts; ++e) {
        const std::int64_t rows = e < last ? detail::ceil_div(left, last - e) : of_last;
        left -= rows;
        if (rows == 0) continue;  // not hit: the loop leaves it out
        // torch.where: two views of one tensor.
        const Ref token_ids = tape.fresh(2 * rows, dtype::int64, "positions and token ids");
        Ref state;
        Ref result = step     ? run_step_expert(m, all, x, token_ids, rows, current)
                     : all.up ? run_dbrx_expert(m, all, x, token_ids, rows)
                              : run_expert(m, all, x, token_ids, rows, state);
        if (!step) current = std::move(result);
        {
            const Ref weights = gather(tape, routing.weights, token_ids, rows, "weight of each row");
            current = tape.mul(step ? std::move(result) : current, weights);
        }
        const Ref cast = tape.cast(current, out.dtype());
        // index_add_: the gradient of the rows is gathered, in the shape of the rows, which are kept for it
        // [derivatives.yaml: index_add].
        Ref added = tape.alias_of_storage(out);
        Tape::NodeBuilder node(tape, "index_add", {&out, &cast});
        node.save(token_ids);
        node.save(cast);
        node.pass(0);
        node.grad(1, "gathered grad");
        node.finish(added);
        out = std::move(added);
        if (!step) current.reset();
    }
    return out;
}

/// The dense network that every token passes: down(act(gate(x)) * up(x)).
Ref shared_expert(Mixture& m, const Ref& x) {
    Tape& tape = m.tape;
    if (m.a.shared_fused) {  // MiniMaxM3VLDenseMLP
        const Ref both = m.next_linear(x, m.hidden, 2 * m.a.shared_width, m.a.shared_bias);
        const std::int64_t halves[] = {both.numel() / 2, both.numel() / 2};
        std::vector<Ref> parts = tape.chunk(both, halves);
        Ref glu;
        Ref product = gated_by_sigmoid(tape, parts[0], parts[1], glu);
        return m.next_linear(std::move(product), m.a.shared_width, m.hidden, m.a.shared_bias);
    }
    if (clamps(m)) {
        const Ref gate = clamp(tape, m.next_linear(x, m.hidden, m.a.shared_width, m.a.shared_bias), Bounds::one);
        const Ref up = clamp(tape, m.next_linear(x, m.hidden, m.a.shared_width, m.a.shared_bias), Bounds::both);
        Ref product = tape.mul(apply_activation(tape, m.a.act, gate), up);
        return m.next_linear(std::move(product), m.a.shared_width, m.hidden, m.a.shared_bias);
    }
    if (m.a.bounded) {
        const Ref gate = clamp(
            tape, apply_activation(tape, m.a.act, m.next_linear(x, m.hidden, m.a.shared_width, m.a.shared_bias)), Bounds::one);
        const Ref up = clamp(tape, m.next_linear(x, m.hidden, m.a.shared_width, m.a.shared_bias), Bounds::both);
        return m.next_linear(tape.mul(gate, up), m.a.shared_width, m.hidden, m.a.shared_bias);
    }
    Ref active = apply_activation(tape, m.a.act, m.next_linear(x, m.hidden, m.a.shared_width, m.a.shared_bias));
    Ref up = m.next_linear(x, m.hidden, m.a.shared_width, m.a.shared_bias);
    Ref product = tape.mul(std::move(active), std::move(up));
    return m.next_linear(std::move(product), m.a.shared_width, m.hidden, m.a.shared_bias);
}

/// Llama 4 [models/llama4/modeling_llama4.py Llama4TextMoe.forward]: every expert runs over all tokens, which
/// the router has multiplied by their weights, nearly all zero.
void all_experts(Mixture& m) {
    Tape& tape = m.tape;
    const Ref x = tape.view(m.call.in(0));
    const Routing routing = route(m);
    const std::int64_t rows = detail::checked_mul(m.tokens, m.a.experts);
    Ref in = tape.repeat(x, detail::checked_mul(rows, m.hidden));
    {
        const Ref by_row = tape.copy(routing.weights);
        in = tape.mul(std::move(in), by_row);
    }
    Adapted gate_up(m);
    Adapted down(m);
    down.activate();  // the outer wrapper
    gate_up.activate();
    Ref out;
    {
        const Ref both = tape.matmul(in, gate_up.get(), detail::checked_mul(rows, 2 * m.a.expert_width));
        const std::int64_t halves[] = {both.numel() / 2, both.numel() / 2};
        const std::vector<Ref> parts = tape.chunk(both, halves);
        Ref product = tape.mul(parts[1], apply_activation(tape, m.a.act, parts[0]));
        out = tape.view(tape.matmul(std::move(product), down.get(), in.numel()));
    }
    Ref shared = shared_expert(m, x);
    shared = tape.add_in_place(std::move(shared), tape.sum_to(out, x.numel()));
    m.call.out(0, tape.view(std::move(shared)));
}

/// hidden_states *= noise, in the router and before that in PhiMoE's block [models/phimoe/modeling_phimoe.py
/// PhimoeSparseMoeBlock.forward, PhimoeTopKRouter.forward; models/dbrx/modeling_dbrx.py DbrxRouter.forward]: the
/// noise is kept.
void add_jitter(Mixture& m) {
    Tape& tape = m.tape;
    const int times = m.a.router == RouterForm::phimoe ? 2 : 1;
    for (int i = 0; i < times; ++i) {
        const Ref x = m.call.in(0);
        const Ref noise = tape.fresh(x.numel(), x.dtype(), "noise");
        Ref out = tape.alias_of_storage(x);
        Tape::NodeBuilder node(tape, "mul", {&x});
        node.save(noise);
        node.grad(0);
        node.finish(out);
        m.call.rebind_input(0, std::move(out));
    }
}

using Experts = Ref (*)(Mixture& m, const Ref& x, const Routing& routing);

/// sigmoid(gate(x)) * shared [Qwen2MoeSparseMoeBlock.forward].
Ref open_gate(Mixture& m, const Ref& x, const Ref& shared) {
    Tape& tape = m.tape;
    Ref gate = m.next_linear(x, m.hidden, 1, false);
    const Ref open = tape.unary_saving_output(gate, "sigmoid");
    gate.reset();
    return tape.mul(open, shared);
}

/// The sum of what the chosen experts and the shared one make.
Ref join(Mixture& m, const Ref& routed, Ref shared) {
    Tape& tape = m.tape;
    if (m.a.shared == SharedExpert::between) return tape.add(std::move(shared), routed);
    if (m.a.shared != SharedExpert::wide) {
        Ref sum = tape.add(routed, std::move(shared));
        return m.a.shared == SharedExpert::mean ? tape.mul_scalar(std::move(sum)) : sum;
    }
    Ref wide = tape.cast(routed, dtype::fp32);
    Ref sum = tape.add(std::move(wide), tape.cast(std::move(shared), dtype::fp32));
    return tape.cast(std::move(sum), routed.dtype());
}

void mixture(KernelCall& call, Experts experts) {
    Mixture m(call);
    Tape& tape = call.tape;
    if (m.a.router == RouterForm::llama4) return all_experts(m);
    if (m.a.looped) experts = looped_experts;
    if (m.a.jittered) add_jitter(m);
    const Ref x = m.flat = tape.view(call.in(0));
    if (m.a.shared_width == 0) {
        const Routing routing = route(m);
        if (m.a.keeps_logits) call.keep_as_output(routing.logits);
        call.out(0, tape.view(experts(m, x, routing)));
        return;
    }
    // Parameters: router, experts, shared expert [, its gate], whatever the order of the calls.
    const std::size_t modules = m.a.shared_fused ? 2U : 3U;
    const std::size_t of_shared = (m.a.shared_bias ? 2U : 1U) * modules + (m.a.shared_gate ? 1U : 0U);
    std::size_t behind_router = 0;
    Routing routing;
    Ref shared;
    const auto run_router = [&] {
        m.parameter = 0;
        routing = route(m);
        behind_router = m.parameter;
        if (m.a.keeps_logits) call.keep_as_output(routing.logits);
    };
    const auto run_shared = [&](const Ref& from) {
        m.parameter = m.own_parameters() - of_shared;
        shared = shared_expert(m, from);
    };
    const auto run_experts = [&] {
        m.parameter = behind_router;
        return experts(m, x, routing);
    };
    if (m.a.shared == SharedExpert::first) run_shared(x);
    run_router();
    if (m.a.shared == SharedExpert::between) run_shared(x);
    Ref routed = run_experts();
    if (m.a.scales_routed) routed = tape.mul_scalar(std::move(routed));
    const bool last = !shared;
    if (last) run_shared(call.in(0));
    if (m.a.shared_gate) {
        m.parameter = m.own_parameters() - 1;
        shared = open_gate(m, x, shared);
    }
    // An expert called last is an operand of the sum: no name holds its result.
    Ref sum = join(m, routed, last ? std::move(shared) : shared);
    call.out(0, last ? std::move(sum) : tape.view(std::move(sum)));
}

}  // namespace

void grouped_moe(KernelCall& call) { mixture(call, grouped_experts); }

void looped_moe(KernelCall& call) { mixture(call, looped_experts); }

}  // namespace membudget::kernel
