// The tape against what PyTorch 2.13 was seen to do, op by op (tests/differential), and against the
// rules of reference counting.

#include "catch.hpp"

#include <cstdint>
#include <map>
#include <vector>

#include "membudget/autograd.hpp"

using namespace membudget;

namespace {

/// A tape whose events can be read as levels.
class Bench {
public:
    explicit Bench(Backend backend = Backend::cpu) : tape(make_terms(), backend) {
        tape.record_to(&events);
        tape.book(activations_, 0);
    }

    [[nodiscard]] std::int64_t live() const {
        std::int64_t level = 0;
        for (const Event& event : events) level += event.bytes + event.rounding;
        return level;
    }
    /// Highest level since `mark`, above the level at `mark`.
    [[nodiscard]] std::int64_t rise_since(std::size_t mark) const {
        std::int64_t level = 0;
        std::int64_t highest = 0;
        for (std::size_t i = mark; i < events.size(); ++i) {
            level += events[i].bytes + events[i].rounding;
            highest = std::max(highest, level);
        }
        return highest;
    }
    [[nodiscard]] int allocations_of(std::string_view what) const {
        int count = 0;
        for (const Event& event : events) count += event.bytes > 0 && event.label.what == what;
        return count;
    }
    Ref input(std::int64_t numel, const Dtype& type = dtype::fp32) {
        return tape.borrow(numel, type, true);
    }
    /// Runs backward from `output` with a gradient made elsewhere.
    void backward(Ref output) {
        const Ref alias = tape.alias(output);
        const std::int64_t bytes = bytes_of(Elements(output.numel()), output.dtype()).count();
        output.reset();
        tape.seed(alias, {true, false, bytes, terms.intern("temporaries/backward")});
        tape.backward();
    }

    std::vector<Event> events;
    TermTable terms;
    Tape tape;

private:
    TapeTerms make_terms() {
        activations_ = terms.intern("activations/x");
        return {terms.intern("temporaries/backward"), terms.intern("gradients"),
                terms.intern("communication/unsharded_gradients"),
                terms.intern("temporaries/optimizer_step"), terms.intern("temporaries/recompute"),
                activations_};
    }
    TermId activations_ = 0;
};

}  // namespace

TEST_CASE("a tensor dies with its last name", "[autograd]") {
    Bench b;
    Ref x = b.tape.fresh(10, dtype::fp32, "x");
    CHECK(b.live() == 40);
    Ref again = x;
    x.reset();
    CHECK(b.live() == 40);
    again.reset();
    CHECK(b.live() == 0);
}

TEST_CASE("blocks are rounded to 512 bytes on CUDA and not at all on the CPU", "[autograd]") {
    Bench cuda(Backend::cuda);
    const Ref x = cuda.tape.fresh(1, dtype::fp32, "x");
    CHECK(cuda.events.back().bytes == 4);
    CHECK(cuda.events.back().rounding == 508);
    Bench cpu;
    const Ref y = cpu.tape.fresh(1, dtype::fp32, "y");
    CHECK(cpu.events.back().rounding == 0);
}

TEST_CASE("add saves nothing, mul saves both, a view costs nothing", "[autograd]") {
    Bench b;
    Ref x = b.input(100);
    Ref a = b.tape.add(x, x);
    CHECK(b.live() == 400);
    Ref v = b.tape.view(a);
    CHECK(b.live() == 400);
    a.reset();
    CHECK(b.live() == 400);  // the view keeps its base
    Ref m = b.tape.mul(v, v);
    v.reset();
    CHECK(b.live() == 800);  // and mul saves it
    m.reset();
    CHECK(b.live() == 400);
}

TEST_CASE("without gradients nothing is saved", "[autograd]") {
    Bench b;
    b.tape.set_grad_enabled(false);
    Ref x = b.input(100);
    Ref y = b.tape.mul(x, x);
    Ref z = b.tape.unary_saving_input(y, "gelu");
    y.reset();
    CHECK(b.live() == 400);
    z.reset();
    CHECK(b.live() == 0);
}

TEST_CASE("backward of square holds two transients beside its gradient", "[autograd]") {
    // PowBackward0 of x.pow(2): pow, mul, mul, all alive until the expression ends.
    Bench b;
    Ref x = b.input(100);
    Ref y = b.tape.square(x);
    const std::size_t mark = b.events.size();
    b.backward(std::move(y));
    CHECK(b.rise_since(mark) == 3 * 400 - 400);  // the output died with its name
}

TEST_CASE("a matrix product frees what it saved once its node has run", "[autograd]") {
    Bench b;
    const std::size_t weight = b.tape.add_leaf({6, &dtype::fp32, true});
    Ref x = b.input(4);
    Ref hidden = b.tape.mul_scalar(x);
    Ref y = b.tape.linear(hidden, b.tape.parameter(weight), Ref(), 2, 2, 3);
    hidden.reset();
    CHECK(b.live() == 16 + 24);
    b.backward(std::move(y));
    // What lives on: the weight's gradient, and the gradient of the boundary input; the gradient of
    // the output came from outside and was freed here.
    std::map<TermId, std::int64_t> by_term;
    for (const Event& event : b.events) by_term[event.term] += event.bytes;
    CHECK(by_term[b.terms.intern("gradients")] == 24);
    CHECK(by_term[b.terms.intern("activations/x")] == 0);
    CHECK(by_term[b.terms.intern("temporaries/backward")] == 16 - 24);
    CHECK(b.tape.gradient_of(x).bytes == 16);
}

TEST_CASE("gradients add in place where nobody else holds them", "[autograd]") {
    // x feeds two ops whose gradients are plain tensors: the second is added into the first.
    Bench plain;
    {
        Ref x = plain.input(100);
        Ref y = plain.tape.add(plain.tape.mul_scalar(x), plain.tape.mul_scalar(x));
        plain.backward(std::move(y));
        CHECK(plain.allocations_of("gradient sum") == 0);
    }
    // Gradients that come back through views are not: a third tensor holds the sum.
    Bench viewed;
    {
        Ref x = viewed.input(100);
        Ref left = viewed.tape.mul_scalar(viewed.tape.view(x));
        Ref right = viewed.tape.mul_scalar(viewed.tape.view(x));
        Ref y = viewed.tape.add(left, right);
        left.reset();
        right.reset();
        viewed.backward(std::move(y));
        CHECK(viewed.allocations_of("gradient sum") == 1);
    }
}

TEST_CASE("a second micro-batch adds to the gradient that exists", "[autograd]") {
    Bench b;
    Leaf leaf{4, &dtype::fp32, true};
    leaf.has_grad = true;
    const std::size_t weight = b.tape.add_leaf(leaf);
    Ref x = b.input(2);
    Ref y = b.tape.linear(x, b.tape.parameter(weight), Ref(), 1, 2, 2);
    b.backward(std::move(y));
    std::int64_t gradients = 0;
    for (const Event& event : b.events)
        if (event.term == b.terms.intern("gradients")) gradients += event.bytes;
    CHECK(gradients == 0);
}

TEST_CASE("autocast casts activations each time and weights once", "[autograd]") {
    Bench b;
    b.tape.set_autocast(&dtype::bf16);
    const std::size_t weight = b.tape.add_leaf({4, &dtype::fp32, true});
    Ref x = b.input(2);
    Ref first = b.tape.linear(x, b.tape.parameter(weight), Ref(), 1, 2, 2);
    CHECK(b.live() == 8 + 4 + 4);  // cast weight, cast input, output
    Ref second = b.tape.linear(x, b.tape.parameter(weight), Ref(), 1, 2, 2);
    CHECK(b.live() == 16 + 4 + 4);  // another cast input and output
    first.reset();
    second.reset();
    CHECK(b.live() == 8 + 4 + 4);  // saved: the cast weight, both cast inputs
    b.tape.clear_autocast_cache();
    CHECK(b.live() == 8 + 4 + 4);  // still saved
}

TEST_CASE("dropout keeps a byte on CUDA and a mask of the input's type on the CPU", "[autograd]") {
    for (const Backend backend : {Backend::cuda, Backend::cpu}) {
        Bench b(backend);
        Ref x = b.input(1024, dtype::bf16);
        Ref y = b.tape.dropout(x, 0.1);
        y.reset();
        CHECK(b.live() == (backend == Backend::cuda ? 1024 : 2048));
    }
    Bench off;
    Ref x = off.input(1024, dtype::bf16);
    Ref y = off.tape.dropout(x, 0.0);
    CHECK(off.events.empty());
}

TEST_CASE("a tensor that is handed over is freed on the other side", "[autograd]") {
    Bench b;
    Ref x = b.input(100);
    Ref y = b.tape.mul_scalar(x);
    CHECK_FALSE(b.tape.hand_over(y));
    y.reset();
    CHECK(b.live() == 400);
    // One that is saved stays: its own backward frees it.
    Ref z = b.tape.unary_saving_output(x, "tanh");
    CHECK(b.tape.hand_over(z));
}

TEST_CASE("a gradient that another node still holds is cloned for the parameter", "[autograd]") {
    // x + w of one shape hands the same tensor to both: `.grad` is a copy of it.
    Bench b;
    const std::size_t weight = b.tape.add_leaf({4, &dtype::fp32, true});
    const Ref x = b.input(4);
    b.backward(b.tape.add(x, b.tape.parameter(weight)));
    CHECK(b.allocations_of("cloned gradient") == 1);
    CHECK(b.tape.gradient_of(x).exists);

    // Without the other holder the tensor itself becomes `.grad`.
    Bench alone;
    const std::size_t only = alone.tape.add_leaf({4, &dtype::fp32, true});
    alone.backward(alone.tape.add_scalar(alone.tape.parameter(only)));
    CHECK(alone.allocations_of("cloned gradient") == 0);
}
