#include "stack/optimizer_sizes.hpp"

#include <algorithm>

namespace membudget {

std::int64_t option(OptimizerOptions options, std::string_view name) {
    for (const OptimizerOption& one : options)
        if (one.name == name) return one.value;
    throw InternalError("a size rule asks for an option that its optimizer's row lacks");
}

Bytes slot_bytes(const StateSlot& slot, Shape shape, const Dtype& updated, const Dtype* chosen,
                 OptimizerOptions options) {
    const Dtype& type = chosen != nullptr ? *chosen : slot.dtype != nullptr ? *slot.dtype : updated;
    return slot.size(shape, type, options);
}

Bytes state_bytes(const Optimizer& optimizer, Shape shape, const Dtype& updated) {
    return state_bytes(optimizer, shape, updated, optimizer.options);
}

Bytes state_bytes(const Optimizer& optimizer, Shape shape, const Dtype& updated,
                  OptimizerOptions options) {
    Bytes out;
    for (const StateSlot& slot : optimizer.slots)
        out += slot_bytes(slot, shape, updated, nullptr, options);
    return out;
}

namespace sizes {

namespace {

constexpr std::int64_t kAbsmaxBlock = 256;  // bitsandbytes 0.50.2 optim/optimizer.py blocksize
constexpr std::int64_t kSmallTensor = 4096; // torchao 0.18 optim/adam.py _new_buffer

std::int64_t product(Shape shape) {
    std::int64_t out = 1;
    for (const std::int64_t dimension : shape) out = detail::checked_mul(out, dimension);
    return out;
}
Elements numel(Shape shape) { return Elements(product(shape)); }
Elements square(std::int64_t n) { return Elements(n) * n; }
Bytes fp32(Elements n) { return bytes_of(n, dtype::fp32); }

/// Elements with the dimension `from_end` from the end left out; 0 for vectors.
Elements without_dimension(Shape shape, std::size_t from_end) {
    if (shape.size() < 2) return Elements(0);
    const std::size_t at = shape.size() - from_end;
    return Elements(product(shape.first(at))) * product(shape.subspan(at + 1));
}
Elements rows(Shape shape) { return without_dimension(shape, 1); }
Elements columns(Shape shape) { return without_dimension(shape, 2); }

/// The smaller and the larger dimension of a matrix; of another tensor, of its first dimension and
/// the product of the rest.
struct Sides {
    std::int64_t small, large;
};
Sides sides(Shape shape) {
    if (shape.empty()) return {1, 1};
    const std::int64_t rest = product(shape.subspan(1));
    return {std::min(shape[0], rest), std::max(shape[0], rest)};
}

std::int64_t galore_rank(Sides of, OptimizerOptions options) {
    return std::min(option(options, "rank"), of.small);
}

bool stays_fp32(Shape shape, OptimizerOptions options) {
    return product(shape) < option(options, "min_8bit_size");
}

}  // namespace

Bytes full(Shape shape, const Dtype& type, OptimizerOptions) { return bytes_of(numel(shape), type); }

Bytes row_factor(Shape shape, const Dtype& type, OptimizerOptions) {
    return bytes_of(rows(shape), type);
}

Bytes column_factor(Shape shape, const Dtype& type, OptimizerOptions) {
    return bytes_of(columns(shape), type);
}

Bytes vectors_only(Shape shape, const Dtype& type, OptimizerOptions) {
    return shape.size() < 2 ? bytes_of(numel(shape), type) : Bytes(0);
}

Bytes bnb_codes(Shape shape, const Dtype& type, OptimizerOptions options) {
    return stays_fp32(shape, options) ? fp32(numel(shape)) : bytes_of(numel(shape), type);
}

Bytes bnb_absmax(Shape shape, const Dtype& type, OptimizerOptions options) {
    if (stays_fp32(shape, options)) return Bytes(0);
    return bytes_of(ceil_div(numel(shape), kAbsmaxBlock), type);
}

template <int Bits, int TableEntries>
Bytes ao_state(Shape shape, const Dtype& type, OptimizerOptions options) {
    const std::int64_t block = option(options, "block_size");
    const std::int64_t n = product(shape);
    if (n < kSmallTensor || n % block != 0) return bytes_of(Elements(n), type);
    const Bytes codes(detail::ceil_div(detail::checked_mul(n, Bits), 8));
    return codes + fp32(Elements(n / block)) + fp32(Elements(TableEntries));
}
template Bytes ao_state<8, 256>(Shape, const Dtype&, OptimizerOptions);
template Bytes ao_state<8, 0>(Shape, const Dtype&, OptimizerOptions);
template Bytes ao_state<4, 16>(Shape, const Dtype&, OptimizerOptions);

Bytes per_row(Shape shape, const Dtype& type, OptimizerOptions) {
    return bytes_of(shape.size() < 2 ? Elements(1) : Elements(shape.front()), type);
}

Bytes galore_moment(Shape shape, const Dtype& type, OptimizerOptions options) {
    const Sides of = sides(shape);
    return bytes_of(Elements(of.large) * galore_rank(of, options), type);
}

Bytes galore_projector(Shape shape, const Dtype& type, OptimizerOptions options) {
    const Sides of = sides(shape);
    if (&type == &dtype::fp32) return fp32(square(of.small));
    return bytes_of(Elements(of.small) * galore_rank(of, options), type);
}

Bytes soap_matrices(Shape shape, const Dtype& type, OptimizerOptions options) {
    Bytes out;
    if (shape.size() < 2) return out;
    for (const std::int64_t dimension : shape)
        if (dimension <= option(options, "max_precondition_dim"))
            out += bytes_of(square(dimension), type);
    return out;
}

Bytes shampoo_matrices(Shape shape, const Dtype& type, OptimizerOptions) {
    Bytes out;
    for (const std::int64_t dimension : shape) out += bytes_of(square(dimension), type);
    return out;
}

Bytes one_fp32(Shape shape, const Dtype&, OptimizerOptions) { return fp32(numel(shape)); }

Bytes per_matrix(Shape shape, const Dtype& type, OptimizerOptions) {
    if (shape.size() < 2) return Bytes(0);
    return bytes_of(Elements(product(shape.first(shape.size() - 2))), type);
}

Bytes adafactor_scratch(Shape shape, const Dtype& type, OptimizerOptions options) {
    if (shape.size() < 2) return bytes_of(numel(shape), type) * 2;
    return bytes_of(numel(shape) + rows(shape) + columns(shape), type) + per_matrix(shape, type, options);
}

Bytes adafactor_hf_scratch(Shape shape, const Dtype& type, OptimizerOptions) {
    return fp32(numel(shape)) * (type.bits == 16 ? 4 : 2);
}

Bytes adam_mini_scratch(Shape shape, const Dtype& type, OptimizerOptions options) {
    return full(shape, type, options) * 2 + per_row(shape, type, options) * 4;
}

Bytes muon_scratch(Shape shape, const Dtype& type, OptimizerOptions) {
    const Bytes step = bytes_of(numel(shape), type);
    const Bytes iterate = bytes_of(numel(shape), dtype::bf16);
    const Bytes gram = bytes_of(square(sides(shape).small), dtype::bf16);
    // A bf16 gradient is not copied: bfloat16() of it is itself.
    return step + (&type == &dtype::bf16 ? iterate : iterate * 2) + gram * 2;
}

Bytes galore_scratch(Shape shape, const Dtype& type, OptimizerOptions options) {
    const Sides of = sides(shape);
    const std::int64_t rank = galore_rank(of, options);
    const Elements projected = Elements(of.large) * rank;
    const Bytes update = bytes_of(numel(shape), type) * 2 + bytes_of(projected, type) * 3;
    if (&type == &dtype::fp32) return update;
    // fp32 gradient, U (m x k), V (k x n), k singular values, U or V scaled, and the new projection.
    const Elements vectors = Elements(of.small) * of.large + square(of.small);
    const Bytes refresh = fp32(numel(shape) + vectors + Elements(of.small) + projected) +
                          bytes_of(Elements(of.small) * rank, type);
    return std::max(update, refresh);
}

Bytes soap_scratch(Shape shape, const Dtype& type, OptimizerOptions options) {
    if (shape.size() < 2) return bytes_of(numel(shape), type) * 2;
    const std::int64_t limit = option(options, "max_precondition_dim");
    Bytes worst;
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] > limit) continue;
        largest = std::max(largest, shape[i]);
        // The basis of the dimension before is still bound while the next one is computed.
        worst = std::max(worst, fp32(square(shape[i])) * (i == 0 ? 2 : 3));
    }
    return bytes_of(numel(shape), type) * 5 + soap_matrices(shape, dtype::fp32, options) * 2 + worst +
           fp32(Elements(largest)) * 3;  // sums, and their 8-byte order
}

Bytes shampoo_scratch(Shape shape, const Dtype& type, OptimizerOptions) {
    Bytes worst;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const Bytes root = fp32(square(shape[i])) * 4 + fp32(Elements(shape[i]));
        worst = std::max(worst, i == 0 ? root : root + bytes_of(numel(shape), type));
    }
    return worst;
}

Bytes lomo_scratch(Shape shape, const Dtype& type, OptimizerOptions) {
    if (&type == &dtype::fp32) return Bytes(0);
    return fp32(numel(shape)) * 2 - bytes_of(numel(shape), type);
}

Bytes adalomo_scratch(Shape shape, const Dtype& type, OptimizerOptions) {
    const Bytes update = fp32(numel(shape)) * 2 + fp32(rows(shape) + columns(shape));
    if (&type == &dtype::fp32) return update;
    return update + fp32(numel(shape)) - bytes_of(numel(shape), type);
}

}  // namespace sizes

}  // namespace membudget
