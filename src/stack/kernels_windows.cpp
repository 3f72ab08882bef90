// Windows of image models (arXiv:2103.14030): a grid of patches is padded, shifted and cut into squares, each of
// which attends to itself under a trained bias [transformers models/swin/modeling_swin.py].

#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// A copy of another size, whose gradient is a copy too.
void moved(KernelCall& call, const char* what) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    Ref out = tape.fresh(call.numel(call.output_tensor(0)), x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.grad(0);
    node.finish(out);
    call.out(0, std::move(out));
}

}  // namespace

void pad(KernelCall& call) { moved(call, "padded"); }

void roll(KernelCall& call) { moved(call, "rolled"); }

void window_mask(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Dtype& type = call.in(0).dtype();
    const Ref differences = tape.fresh(numel, type, "differences of regions");
    Ref filled;
    {
        const Ref other = tape.fresh(numel, dtype::boolean, "other regions");
        filled = tape.fresh(numel, type, "filled mask");
    }
    const Ref same = tape.fresh(numel, dtype::boolean, "same region");
    call.out(0, tape.fresh(numel, type, "mask"));
}

void window_bias(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t pairs = call.output_tensor(0).width;
    const Ref table = call.parameter(0);
    Ref bias = tape.fresh(detail::checked_mul(pairs, a.heads), table.dtype(), "indexed bias");
    {
        Tape::NodeBuilder node(tape, "index", {&table});
        node.grad(0, "grad of the table");
        node.finish(bias);
    }
    // Pairs x heads, then heads x pairs.
    bias = tape.copy(tape.view(std::move(bias), transposed_gradient(a.heads)));
    if (call.inputs() == 0) return call.out(0, std::move(bias));
    const Ref mask = call.in(0);
    const std::int64_t all = detail::checked_mul(call.extents.images, mask.numel());
    const Ref expanded = call.extents.images > 1 ? tape.fresh(all, mask.dtype(), "mask of each image") : mask;
    Ref out = tape.fresh(detail::checked_mul(all, a.heads),
                         mask.dtype().bits > bias.dtype().bits ? mask.dtype() : bias.dtype(), "bias with mask");
    {
        Tape::NodeBuilder node(tape, "add", {&bias});
        node.grad(0, "reduced grad");
        node.finish(out);
    }
    for (const Ref& local : {bias, expanded}) call.hold_local(local);
    call.out(0, std::move(out));
}

void merge_patches(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = tape.view(call.in(0));
    const std::int64_t quarter = x.numel() / 4;
    std::vector<Ref> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(tape.slice(tape.slice(x, 2 * quarter), quarter));  // rows, columns
    call.out(0, tape.cat(parts));
}

}  // namespace membudget::kernel
