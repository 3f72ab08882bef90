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
    /// The next parameters are a linear module's: its product with x.
    Ref next_linear(Ref x, std::int64_t in, std::int64_t out, bool biased);
    /// How many parameters the module has without adapters.
    [[nodiscard]] std::size_t own_parameters() const;

    KernelCall& call;
    Tape& tape;
    const OpAttributes& a;
    std::int64_t tokens, hidden;
    std::int64_t rows;  ///< of all experts together
    Ref flat;           ///< the input token by token, where the class views it so
    std::size_t parameter = 0;
};

/// What the router decides.
struct Routing {
    Ref logits, weights, ids;
};

/// The next parameter of a module, with what adapters add to it.
class Adapted {
public:
    explicit Adapted(Mixture& mixture);
    /// The wrapper begins to run: its factors are made ready, and the sum is computed once to check it.
    void activate();
    /// The sum, kept from its first use on [torch/nn/utils/parametrize.py cached]; the parameter where there are no
    /// adapters.
    [[nodiscard]] const Ref& get();

private:
    [[nodiscard]] Ref fold() const;
    Mixture& m_;
    const ParameterAdapter* adapter_ = nullptr;
    Ref parameter_, sum_;
    Ref a_, b_;    ///< factors of a stack, as a batched product takes them
    Ref update_;   ///< of a single matrix: scale * B @ A
};

/// x[ids]: saves the ids; the gradient is scattered into zeros.
[[nodiscard]] Ref gather(Tape& tape, const Ref& x, const Ref& ids, std::int64_t numel, const char* what);

/// Which experts each token goes to, and with what weights, as the class writes it.
[[nodiscard]] Routing route(Mixture& mixture);

}  // namespace membudget::kernel
