// What Gemma 4's vision tower computes of the places of patches in their image
// [transformers models/gemma4/modeling_gemma4.py].

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// A copy of x whose gradient is as large: of rows that a mask chooses, or of zeros in the places of padding
/// [derivatives.yaml: index, masked_fill, where].
Ref masked(Tape& tape, const Ref& x, const char* what, const char* gradient) {
    Ref out = tape.fresh(x.numel(), x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.grad(0, gradient);
    node.finish(out);
    return out;
}

Ref without_padding(Tape& tape, const Ref& x) { return masked(tape, x, "rows without padding", "masked grad"); }

/// weights.transpose(1, 2) @ x.float(), whose weights are made from numbers of 8 bytes
/// [Gemma4VisionPooler._avg_pool_by_positions]. `tokens` are those of one image.
Ref means_of_squares(KernelCall& call, const Ref& x, std::int64_t numel, std::int64_t tokens) {
    Tape& tape = call.tape;
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref places = tape.fresh(2 * rows, dtype::int64, "places");
    Ref squares;
    {
        const Ref divided = tape.fresh(2 * rows, dtype::int64, "places of squares");
        const Ref scaled = tape.fresh(rows, dtype::int64, "rows of squares");
        squares = tape.fresh(rows, dtype::int64, "squares");
    }
    const std::int64_t pairs = detail::checked_mul(rows, tokens);
    Ref weights;
    {
        Ref ones = tape.fresh(pairs, dtype::int64, "one of each square");
        const Ref wide = tape.fresh(pairs, dtype::fp32, "the same as numbers");
        ones.reset();
        weights = tape.fresh(pairs, dtype::fp32, "weights");
    }
    const Ref out = tape.matmul(weights, tape.cast(x, dtype::fp32), numel);
    { const Ref empty = tape.fresh(pairs, dtype::boolean, "patches that do not count"); }
    return tape.cast(out, x.dtype());
}

}  // namespace

/// x + where(padding, 0, table[0][columns] + table[1][rows]) [Gemma4VisionPatchEmbedder._position_embeddings].
void grid_positions(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const Ref table = call.parameter(0);
    const std::int64_t numel = call.numel(call.output_tensor(0));
    Ref positions;
    {
        const Ref places = tape.fresh(2 * call.rows(call.output_tensor(0)), dtype::int64, "places");
        const Ref columns = tape.embedding(places, tape.slice(table, table.numel() / 2), numel);
        const Ref rows = tape.embedding(places, tape.slice(table, table.numel() / 2), numel);
        const Ref sum = tape.add(columns, rows);
        positions = without_padding(tape, sum);
    }
    call.out(0, tape.add(x, positions));
}

/// Means over squares of patches in fp32, scaled; then the rows of tokens, cast to the type of what came in
/// [Gemma4VisionPooler.forward, Gemma4VisionModel.forward].
void pool_grid(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Dtype& type = call.in(0).dtype();
    Ref hidden;
    {
        Ref pooled = without_padding(tape, call.in(0));
        if (call.attributes().stride > 1)
            pooled = means_of_squares(call, pooled, numel, call.output_tensor(0).times);
        hidden = tape.mul_scalar(tape.cast(std::move(pooled), dtype::fp32));
    }
    hidden = masked(tape, hidden, "rows of tokens", "scattered grad");  // x[mask]
    if (call.attributes().normalised) {  // by two buffers
        const std::int64_t width = call.output_tensor(0).width;
        const auto buffer = [&] { return tape.cast(tape.borrow(width, call.activation_dtype(), false), dtype::fp32); };
        Ref centred = tape.sub(hidden, buffer());
        hidden = tape.mul(std::move(centred), buffer());
    }
    call.out(0, tape.cast(std::move(hidden), type));
}

Ref rotate_axial(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin) {
    const std::array<std::int64_t, 2> halves{x.numel() / 2, x.numel() / 2};
    std::vector<Ref> parts = tape.chunk(x, halves);
    const Ref half_cos = tape.slice(cos, cos.numel() / 2), half_sin = tape.slice(sin, sin.numel() / 2);
    std::vector<Ref> rotated;
    for (const Ref& part : parts) rotated.push_back(rotate(tape, part, half_cos, half_sin));
    return tape.cat(rotated);
}

}  // namespace membudget::kernel
