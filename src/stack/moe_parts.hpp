#pragma once

/// What the kernels of mixtures of experts share.

#include <cstddef>
#include <cstdint>

#include "stack/kernels.hpp"

namespace membudget::kernel {

/// A module of experts being run: sizes, and its parameters in their order.
struct Mixture {
    explicit Mixture(KernelCall& with)
        : call(with), tape(with.tape), a(with.attributes()),
          tokens(with.rows(with.input_tensor(0))), hidden(with.input_tensor(0).width),
          rows(detail::checked_mul(tokens, a.experts_per_token)) {}

    Ref next_parameter() { return call.parameter(parameter++); }

    KernelCall& call;
    Tape& tape;
    const OpAttributes& a;
    std::int64_t tokens, hidden;
    std::int64_t rows;  ///< of all experts together
    std::size_t parameter = 0;
};

/// What the router decides.
struct Routing {
    Ref logits, weights, ids;
};

/// x[ids]: saves the ids; the gradient is scattered into zeros.
[[nodiscard]] Ref gather(Tape& tape, const Ref& x, const Ref& ids, std::int64_t numel, const char* what);

/// Which experts each token goes to, and with what weights, as the class writes it.
[[nodiscard]] Routing route(Mixture& mixture);

}  // namespace membudget::kernel
