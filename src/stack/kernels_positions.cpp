// What tells positions apart outside of embeddings: biases of attention scores.

#include <cstdint>

#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// The lookup of a bias by buckets of distances
/// [transformers models/t5/modeling_t5.py T5Attention.compute_bias, _relative_position_bucket].
Ref looked_up(KernelCall& call, std::int64_t pairs) {
    Tape& tape = call.tape;
    const Ref relative = tape.fresh(pairs, dtype::int64, "relative positions");
    Ref buckets = tape.fresh(pairs, dtype::int64, "buckets");
    {
        const Ref distances = tape.fresh(pairs, dtype::int64, "distances");
        const Ref small = tape.fresh(pairs, dtype::boolean, "small distances");
        Ref far = tape.fresh(pairs, dtype::int64, "buckets of distances");
        {
            const Ref largest = tape.fresh(pairs, dtype::int64, "largest bucket");
            far = tape.fresh(pairs, dtype::int64, "buckets of distances");
        }
        const Ref chosen = tape.fresh(pairs, dtype::int64, "chosen buckets");
    }
    return tape.embedding(std::move(buckets), call.parameter(0),
                          detail::checked_mul(pairs, call.attributes().heads));
}

}  // namespace

void position_bias(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t pairs =
        detail::checked_mul(call.extents.rows(a.queries), call.extents.rows(a.keys));
    if (call.parameters() == 0) {  // of the queries' type
        const Dtype& type = tape.autocast() != nullptr ? *tape.autocast() : call.activation_dtype();
        return call.out(0, tape.fresh(detail::checked_mul(pairs, a.heads), type, "zeros"));
    }
    Ref values = tape.view(looked_up(call, pairs));  // permuted to heads x queries x keys
    if (a.of_batch) {
        const std::int64_t numel = detail::checked_mul(values.numel(), call.extents.batch);
        values = tape.repeat(std::move(values), numel);
    }
    call.out(0, std::move(values));
}

}  // namespace membudget::kernel
