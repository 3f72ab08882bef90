#include "gpt_on_tape.hpp"

#include <array>

namespace cuda_test {

using namespace membudget;

namespace {

using ViewGradient = Tape::ViewGradient;

/// One step of the model. Names are Python's: they are reset where Python drops them.
class Gpt {
public:
    Gpt(const GptShape& shape, std::vector<Event>& events)
        : shape_(shape), tokens_(shape.batch * shape.sequence), tape_(TapeTerms{}, Backend::cuda) {
        tape_.record_to(&events);
        tape_.set_autocast(shape.autocast);
    }

    void run() {
        const Ref table = weight(shape_.vocabulary * shape_.hidden);
        at(Part::embedding);
        Ref x = lookup(table);
        for (std::int64_t i = 0; i < shape_.layers; ++i) x = block(x);
        x = rms_norm(x);
        const Ref logits = linear(x, shape_.hidden, shape_.vocabulary);
        x.reset();
        Ref loss = cross_entropy(logits);
        at(Part::seed);
        tape_.seed_loss();
        {
            const Ref held = tape_.gradient_reference(loss);  // loss.backward() holds it until it returns
            tape_.backward();
        }
        tape_.record_to(nullptr);
    }

private:
    void at(Part part) { tape_.book(0, static_cast<std::uint16_t>(part)); }

    Ref weight(std::int64_t numel) {
        Leaf leaf;
        leaf.numel = numel;
        leaf.dtype = &dtype::fp32;
        return tape_.parameter(tape_.add_leaf(leaf));
    }

    /// weight[ids], or weight[ids, :]
    Ref lookup(const Ref& whole) {
        const Ref table = shape_.indexed_positions ? tape_.slice(whole, whole.numel()) : whole;
        Ref out = tape_.fresh(tokens_ * shape_.hidden, dtype::fp32, "rows");
        Tape::NodeBuilder node(tape_, "index", {&table});
        node.grad(0);
        node.finish(out);
        return out;
    }

    /// An op that autocast runs in fp32.
    Ref fp32(const Ref& x) { return tape_.autocast() != nullptr ? tape_.cast(x, dtype::fp32) : x; }

    /// einsum(x, weight, "... d_in, d_out d_in -> ... d_out"): bmm of a permuted weight, whose gradient is
    /// not laid out as the weight and so is copied.
    Ref linear(const Ref& input, std::int64_t in, std::int64_t out) {
        const Ref leaf = weight(in * out);
        at(Part::linear);
        Ref x = tape_.autocast_input(input);
        x = tape_.view(std::move(x));
        Ref w = tape_.view(leaf, ViewGradient::copy);
        w = tape_.autocast_input(std::move(w));
        return tape_.matmul(std::move(x), std::move(w), tokens_ * out);
    }

    /// x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps), times the weight
    Ref rms_norm(Ref x) {
        const Ref gain = weight(shape_.hidden);
        at(Part::rms_norm);
        Ref square = tape_.square(x);
        Ref mean = tape_.mean(square, tokens_);
        square.reset();
        Ref sum = tape_.add_scalar(mean);
        mean.reset();
        const Ref rms = tape_.rsqrt(sum);
        sum.reset();
        x = tape_.mul(x, rms);
        return tape_.mul(gain, x);
    }

    /// A projection seen as [batch, heads, tokens, dim].
    Ref by_heads(Ref x) {
        at(Part::heads);
        return tape_.view(std::move(x), ViewGradient::copy);
    }

    /// Pairs of neighbours are rotated: [cos * x1 - sin * x2, sin * x1 + cos * x2].
    Ref rotary(const Ref& x) {
        at(Part::rotary);
        const std::int64_t half = x.numel() / 2;
        const Ref pairs = tape_.view(x, ViewGradient::copy);
        const std::array<std::int64_t, 2> halves{half, half};
        const std::vector<Ref> parts = tape_.chunk(pairs, halves);
        const std::int64_t angles = half / (shape_.batch * shape_.heads);
        const Ref table = shape_.indexed_positions ? tape_.fresh(2 * angles, dtype::fp32, "rows of cos and sin")
                                                   : tape_.borrow(angles, dtype::fp32, false);
        std::array<Ref, 2> rotated;
        {
            const Ref a = tape_.mul(table, parts[0]);
            const Ref b = tape_.mul(table, parts[1]);
            rotated[0] = tape_.sub(a, b);
        }
        {
            const Ref a = tape_.mul(table, parts[0]);
            const Ref b = tape_.mul(table, parts[1]);
            rotated[1] = tape_.add(a, b);
        }
        return tape_.cat(rotated);
    }

    /// torch.max(x, dim=-1, keepdim=True): values; indices stay with the node [derivatives.yaml: max.dim].
    Ref maximum(const Ref& x, std::int64_t rows) {
        Ref values = tape_.fresh(rows, x.dtype(), "maximum");
        const Ref indices = tape_.fresh(rows, dtype::int64, "position of the maximum");
        Tape::NodeBuilder node(tape_, "max", {&x});
        node.save(indices);
        node.grad(0, "scattered grad");
        node.finish(values);
        return values;
    }

    /// x.sum(-1, keepdim=True): its gradient is expanded, a view.
    Ref row_sum(const Ref& x, std::int64_t rows) {
        Ref out = tape_.fresh(rows, x.dtype(), "sum");
        Tape::NodeBuilder node(tape_, "sum", {&x});
        node.pass_view(0);
        node.finish(out);
        return out;
    }

    /// a / b, a number per row [FunctionsManual.cpp div_tensor_other_grad].
    Ref divide(const Ref& a, const Ref& b) {
        Ref out = tape_.fresh(a.numel(), a.dtype(), "quotient");
        const std::int64_t bytes = byte_count(a.numel(), a.dtype());
        Tape::NodeBuilder node(tape_, "div", {&a, &b});
        node.save(a);
        node.save(b);
        const std::int16_t negated = node.temp(bytes, "negated grad");
        const std::int16_t once = node.temp(bytes, "quotient");
        const std::int16_t twice = node.temp(bytes, "quotient of the quotient");
        const std::int16_t product = node.temp(bytes, "grad of the divisor");
        for (const std::int16_t temp : {negated, once, twice}) node.drop(temp);
        node.grad(0);
        node.grad(1, "reduced grad");
        node.drop(product);
        node.finish(out);
        return out;
    }

    /// softmax by hand
    Ref softmax(const Ref& x, std::int64_t rows) {
        at(Part::softmax);
        Ref values = maximum(x, rows);
        const Ref shifted = tape_.sub(x, values);
        values.reset();
        const Ref exponential = tape_.unary_saving_output(fp32(shifted), "exp");
        const Ref total = row_sum(exponential, rows);
        return divide(exponential, total);
    }

    /// torch.where(mask, x, -inf): the number is a tensor for the time of the call.
    Ref where(const Ref& x, const Ref& mask) {
        const std::int64_t number = byte_count(1, x.dtype());
        const Ref scalar = tape_.fresh(1, x.dtype(), "number");
        Ref out = tape_.fresh(x.numel(), x.dtype(), "masked");
        Tape::NodeBuilder node(tape_, "where", {&x});
        node.save(mask);
        const std::int16_t zero = node.temp(number, "number");
        node.grad(0);
        node.drop(zero);
        node.finish(out);
        return out;
    }

    /// scaled_dot_product_attention by hand
    Ref scaled_dot_product(const Ref& q, const Ref& k, const Ref& v, const Ref& mask) {
        const std::int64_t rows = tokens_ * shape_.heads;
        at(Part::scores);
        Ref scores;
        {
            Ref left = tape_.autocast_input(q);
            Ref right = tape_.autocast_input(k);
            scores = tape_.matmul(std::move(left), std::move(right), rows * shape_.sequence);
        }
        scores = tape_.mul_scalar(scores);
        at(Part::mask);
        scores = where(scores, mask);
        Ref probabilities = softmax(scores, rows);
        at(Part::values);
        Ref left = tape_.autocast_input(probabilities);
        Ref right = tape_.copy(v);
        Ref out = tape_.matmul(std::move(left), std::move(right), tokens_ * shape_.hidden);
        for (Ref* local : {&scores, &probabilities}) local->reset();
        return out;
    }

    Ref attention(const Ref& x) {
        const std::int64_t d = shape_.hidden;
        Ref q = linear(x, d, d);
        Ref k = linear(x, d, d);
        Ref v = linear(x, d, d);
        at(Part::mask);
        Ref indices = shape_.indexed_positions ? tape_.fresh(shape_.sequence, dtype::int64, "positions") : Ref();
        q = by_heads(std::move(q));
        k = by_heads(std::move(k));
        v = by_heads(std::move(v));
        q = rotary(q);
        k = rotary(k);
        at(Part::mask);
        Ref positions = tape_.fresh(shape_.sequence, dtype::int64, "positions");
        Ref mask = tape_.fresh(shape_.sequence * shape_.sequence, dtype::boolean, "mask");
        Ref out = scaled_dot_product(q, k, v, mask);
        mask.reset();
        at(Part::values);
        {
            Ref rows = tape_.view(out, ViewGradient::copy);
            out = tape_.copy(std::move(rows));
        }
        Ref projected = linear(out, d, d);
        for (Ref* local : {&indices, &q, &k, &v, &positions, &out}) local->reset();
        return projected;
    }

    Ref feed_forward(const Ref& x) {
        const Ref gate = linear(x, shape_.hidden, shape_.feed_forward);
        at(Part::silu);
        Ref silu;
        {
            const Ref sigmoid = tape_.unary_saving_output(gate, "sigmoid");
            silu = tape_.mul(gate, sigmoid);
        }
        const Ref up = linear(x, shape_.hidden, shape_.feed_forward);
        at(Part::gate);
        const Ref product = tape_.mul(silu, up);
        return linear(product, shape_.feed_forward, shape_.hidden);
    }

    Ref block(const Ref& x) {
        Ref attended;
        {
            const Ref normed = rms_norm(x);
            attended = attention(normed);
        }
        at(Part::residual);
        const Ref middle = tape_.add(x, attended);
        Ref fed;
        {
            const Ref normed = rms_norm(middle);
            fed = feed_forward(normed);
        }
        at(Part::residual);
        return tape_.add(middle, fed);
    }

    /// a - b of a number per row, which may be of a wider type.
    Ref subtract_wider(const Ref& a, const Ref& b) {
        if (&a.dtype() == &b.dtype()) return tape_.sub(a, b);
        Ref out = tape_.fresh(a.numel(), b.dtype(), "difference");
        Tape::NodeBuilder node(tape_, "sub", {&a, &b});
        const std::int16_t negated = node.temp(byte_count(a.numel(), b.dtype()), "negated grad");
        node.grad(0, "grad cast back");
        node.grad(1, "reduced grad");
        node.drop(negated);
        node.finish(out);
        return out;
    }

    Ref log_softmax(const Ref& logits) {
        Ref values = maximum(logits, tokens_);
        Ref shifted = tape_.sub(logits, values);
        Ref logarithm;
        {
            Ref total;
            {
                const Ref exponential = tape_.unary_saving_output(fp32(shifted), "exp");
                total = row_sum(exponential, tokens_);
            }
            logarithm = tape_.unary_saving_input(total, "log");
        }
        Ref out = subtract_wider(shifted, logarithm);
        for (Ref* local : {&logarithm, &shifted, &values}) local->reset();
        return out;
    }

    /// -log_softmax(logits) at the labels, then the mean
    Ref cross_entropy(const Ref& logits) {
        at(Part::loss);
        const Ref negative = tape_.neg(log_softmax(logits));
        Ref picked = tape_.fresh(tokens_, negative.dtype(), "picked");
        {
            Tape::NodeBuilder node(tape_, "gather", {&negative});
            node.save(negative);
            node.grad(0, "scattered grad");
            node.finish(picked);
        }
        return tape_.mean(picked, 1);
    }

    GptShape shape_;
    std::int64_t tokens_;
    Tape tape_;
};

}  // namespace

std::string_view name_of(Part part) {
    switch (part) {
        case Part::embedding: return "embedding by index";
        case Part::rms_norm: return "RMSNorm";
        case Part::linear: return "linear";
        case Part::heads: return "transposed heads";
        case Part::rotary: return "rotary";
        case Part::mask: return "mask";
        case Part::scores: return "scores";
        case Part::softmax: return "softmax in elementwise ops";
        case Part::values: return "weighted values";
        case Part::silu: return "SiLU in elementwise ops";
        case Part::gate: return "product of gate and up";
        case Part::residual: return "residual";
        case Part::loss: return "cross-entropy in elementwise ops";
        case Part::seed: return "gradient of the loss";
        case Part::count: break;
    }
    return "";
}

std::vector<Event> gpt_step(const GptShape& shape) {
    std::vector<Event> events;
    Gpt(shape, events).run();
    return events;
}

}  // namespace cuda_test
