#pragma once

/// Size rules of optimizer states, and of what a step allocates beside them: pure functions of a
/// tensor's shape, all of the type `StateSize`. The tables in optimizers.cpp refer to them.

#include "membudget/stack.hpp"

namespace membudget::sizes {

// --- states --------------------------------------------------------------------------------------

/// One element per element.
Bytes full(Shape shape, const Dtype& type, OptimizerOptions options);
/// Factored second moment: one element per row (all dimensions but the last) of a tensor with two
/// dimensions or more, and per column (all but the one before the last); nothing for vectors.
Bytes row_factor(Shape shape, const Dtype& type, OptimizerOptions options);
Bytes column_factor(Shape shape, const Dtype& type, OptimizerOptions options);
/// The unfactored rest: one element per element of a vector or scalar, nothing for the others.
Bytes vectors_only(Shape shape, const Dtype& type, OptimizerOptions options);

/// bitsandbytes: 8-bit codes, but fp32 below `min_8bit_size` elements.
Bytes bnb_codes(Shape shape, const Dtype& type, OptimizerOptions options);
/// bitsandbytes: an fp32 maximum per block of 256 elements; nothing for tensors that stay fp32.
Bytes bnb_absmax(Shape shape, const Dtype& type, OptimizerOptions options);

/// torchao: codes of `Bits` bits, an fp32 scale per `block_size` elements and an fp32 table of
/// `TableEntries` values, in one tensor subclass; tensors below 4096 elements or not divisible by
/// the block stay in `type`.
template <int Bits, int TableEntries>
Bytes ao_state(Shape shape, const Dtype& type, OptimizerOptions options);
extern template Bytes ao_state<8, 256>(Shape, const Dtype&, OptimizerOptions);
extern template Bytes ao_state<8, 0>(Shape, const Dtype&, OptimizerOptions);
extern template Bytes ao_state<4, 16>(Shape, const Dtype&, OptimizerOptions);

/// Adam-mini: one element per row of a matrix, one for a vector.
Bytes per_row(Shape shape, const Dtype& type, OptimizerOptions options);

/// GaLore: moments of the projected gradient, `rank` x the larger dimension.
Bytes galore_moment(Shape shape, const Dtype& type, OptimizerOptions options);
/// GaLore: the projection. In fp32 it is a view that keeps the whole orthogonal matrix, smaller
/// dimension squared, alive; in other types a copy of `rank` vectors.
Bytes galore_projector(Shape shape, const Dtype& type, OptimizerOptions options);

/// SOAP: a square matrix per dimension of a tensor with two dimensions or more, but for dimensions
/// above `max_precondition_dim`.
Bytes soap_matrices(Shape shape, const Dtype& type, OptimizerOptions options);
/// Shampoo: a square matrix per dimension of any tensor.
Bytes shampoo_matrices(Shape shape, const Dtype& type, OptimizerOptions options);

// --- scratch of one tensor during a step -----------------------------------------------------------

/// `N` tensors of the parameter's size and type.
template <int N>
Bytes copies(Shape shape, const Dtype& type, OptimizerOptions options) {
    return full(shape, type, options) * N;
}
/// One fp32 tensor of the parameter's size.
Bytes one_fp32(Shape shape, const Dtype& type, OptimizerOptions options);
/// One element of each matrix of a stack, such as a filter's; of a vector none.
Bytes per_matrix(Shape shape, const Dtype& type, OptimizerOptions options);
/// torch Adafactor: the estimate, the means over rows and columns, and the mean of the former.
Bytes adafactor_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// transformers Adafactor: two fp32 tensors, and fp32 copies of gradient and parameter when those
/// are 16 bits wide.
Bytes adafactor_hf_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// Adam-mini: two tensors and four columns.
Bytes adam_mini_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// Muon: the momentum step in the gradient's type; a bf16 copy, the next iterate, and two Gram
/// matrices of the smaller dimension in bf16.
Bytes muon_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// GaLore: the update projected back and scaled; or, in 16 bits, the fp32 singular value
/// decomposition that refreshes the projection.
Bytes galore_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// SOAP: the projections of gradient and moment, and the power iteration and QR of each basis.
Bytes soap_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// Shampoo: four fp32 square matrices for the inverse root of one dimension at a time.
Bytes shampoo_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// LOMO: fp32 copies of gradient and parameter, of which the first replaces the gradient.
Bytes lomo_scratch(Shape shape, const Dtype& type, OptimizerOptions options);
/// AdaLomo: an fp32 copy that replaces the gradient, two fp32 tensors, a row and a column.
Bytes adalomo_scratch(Shape shape, const Dtype& type, OptimizerOptions options);

}  // namespace membudget::sizes
