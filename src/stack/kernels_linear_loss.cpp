// Losses that compute the head's matrix product themselves, so that no tensor of tokens x vocabulary
// lives in one piece: in chunks of the sequence, or fused with the gradients.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Tokens per sequence of each chunk, of which the last may be shorter.
std::vector<std::int64_t> chunk_lengths(std::int64_t sequence, std::int64_t longest) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t begin = 0; begin < sequence; begin += longest)
        lengths.push_back(std::min(longest, sequence - begin));
    return lengths;
}

struct Head {
    Ref weight, bias;
    std::int64_t in = 0, classes = 0;
};

Head head_of(KernelCall& call) {
    const Parameter& shape = call.shape_of_parameter(0);
    return {call.parameter(0), call.parameters() > 1 ? call.parameter(1) : Ref(), shape.shape[1],
            shape.shape[0]};
}

/// The head over one chunk after the other. A chunk of several sequences has gaps between them: what
/// is not cast is copied for the product.
std::vector<Ref> chunks_of_logits(KernelCall& call, std::span<const std::int64_t> lengths) {
    Tape& tape = call.tape;
    const std::int64_t batch = call.extents.batch;
    Op product = call.op;
    product.kind = OpKind::linear;
    product.outputs.erase(product.outputs.begin());  // the loss
    const auto from = static_cast<std::size_t>(product.inputs.front());
    const auto to = static_cast<std::size_t>(product.outputs.front());
    std::vector<std::int64_t> numels;
    for (const std::int64_t length : lengths) numels.push_back(batch * length * call.input_tensor(0).width);
    std::vector<Ref> parts = tape.chunk(call.in(0), numels);
    std::vector<Ref> logits;
    std::vector<Ref> tensors(call.block.tensors.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        Extents shape = call.extents;
        shape.sequence = lengths[i];
        tensors[from] = std::move(parts[i]);
        const bool cast = tape.autocast() != nullptr && tape.autocast() != &tensors[from].dtype();
        if (batch > 1 && parts.size() > 1 && !cast) tensors[from] = tape.copy(std::move(tensors[from]));
        KernelCall chunk = call.with(product, shape, tensors);
        linear(chunk);
        tensors[from].reset();
        Ref made = std::move(tensors[to]);
        if (call.attributes().softcap > 0) made = softcapped(tape, std::move(made));
        logits.push_back(std::move(made));
    }
    return logits;
}

/// Liger's fused linear cross-entropy: forward computes the gradients and saves them instead of the
/// inputs. What is written into a tensor that exists differs by version.
class FusedLinearLoss {
public:
    FusedLinearLoss(KernelCall& call, bool writes_in_place)
        : call_(call), tape_(call.tape), head_(head_of(call)), x_(call.in(0)),
          tokens_(x_.numel() / head_.in), in_place_(writes_in_place),
          casts_(tape_.autocast() != nullptr && tape_.autocast() != &x_.dtype()),
          type_(casts_ ? *tape_.autocast() : x_.dtype()) {}

    void run() {
        const Ref padded = tape_.fresh(tokens_ + call_.extents.batch, dtype::int64, "padded labels");
        const Ref labels = tape_.fresh(tokens_, dtype::int64, "shifted labels");
        const Ref grad_input = gradient_of(x_, "grad input");
        const Ref grad_weight = gradient_of(head_.weight, "grad weight");
        const Ref grad_bias = gradient_of(head_.bias, "grad bias");
        const Ref losses = tape_.fresh(tokens_, dtype::fp32, "loss per token");
        const Ref valid = tape_.fresh(tokens_, dtype::boolean, "valid tokens");
        // Inside the function autograd is off.
        tape_.set_grad_enabled(false);
        chunks();
        tape_.set_grad_enabled(true);
        Ref loss = tape_.fresh(1, dtype::fp32, "loss");
        Tape::NodeBuilder node(tape_, "fused linear cross-entropy",
                               head_.bias ? std::initializer_list<const Ref*>{&x_, &head_.weight, &head_.bias}
                                          : std::initializer_list<const Ref*>{&x_, &head_.weight});
        node.give(0, grad_input);
        if (grad_weight) node.give(1, grad_weight);
        if (grad_bias) node.give(2, grad_bias);
        node.finish(loss);
        call_.out(0, std::move(loss));
    }

private:
    Ref gradient_of(const Ref& of, const char* what) {
        if (!of || !of.requires_grad()) return {};
        return tape_.fresh(of.numel(), of.dtype(), tape_.gradient_term_of(of), what);
    }

    void chunks() {
        const std::int64_t budget = divided_up(tokens_, divided_up(head_.classes, head_.in));
        const auto chunk = std::min(
            static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(budget))), tokens_);
        // A product of operands that autocast casts is not written into a tensor that exists.
        const bool kept = in_place_ && !casts_;
        Ref logits = kept ? tape_.fresh(chunk * head_.classes, type_, "logits of a chunk") : Ref();
        for (std::int64_t done = 0; done < tokens_; done += chunk) {
            const std::int64_t rows = std::min(chunk, tokens_ - done);
            if (!kept) logits = product_of(rows);
            if (!kept) input_gradient(rows);
            weight_gradient(rows);
            if (!kept) logits.reset();
        }
    }

    /// chunk @ weight.t(): the transposed weight is no leaf, so its cast is not cached.
    Ref product_of(std::int64_t rows) {
        const Ref input = casts_ ? cast_chunk(rows) : Ref();
        const Ref weight = casts_ ? tape_.fresh(head_.weight.numel(), type_, "transposed weight, cast") : Ref();
        return tape_.fresh(rows * head_.classes, type_, "logits of a chunk");
    }

    void input_gradient(std::int64_t rows) {
        const Ref weight = tape_.autocast_input(head_.weight);
        (void)tape_.fresh(rows * head_.in, type_, "gradient of a chunk");
    }

    void weight_gradient(std::int64_t rows) {
        if (!head_.weight.requires_grad()) return;
        Ref input = casts_ ? cast_chunk(rows) : Ref();
        if (in_place_) return;
        const Ref product = tape_.fresh(head_.weight.numel(), type_, "weight gradient of a chunk");
        input.reset();
        if (&type_ != &dtype::fp32)
            (void)tape_.fresh(head_.weight.numel(), dtype::fp32, "weight gradient of a chunk in fp32");
    }

    Ref cast_chunk(std::int64_t rows) {
        return tape_.fresh(rows * head_.in, type_, "chunk, cast");
    }

    KernelCall& call_;
    Tape& tape_;
    Head head_;
    Ref x_;
    std::int64_t tokens_;
    bool in_place_, casts_;
    const Dtype& type_;
};

}  // namespace

void torchtune_chunked_loss(KernelCall& call) {
    constexpr std::int64_t kChunks = 8;  // CEWithChunkedOutputLoss(num_output_chunks=8)
    Tape& tape = call.tape;
    const Extents& shape = call.extents;
    const std::int64_t chunks = shape.loss_chunks > 0 ? shape.loss_chunks : kChunks;
    const auto lengths = chunk_lengths(shape.sequence, divided_up(shape.sequence, chunks));
    const std::vector<Ref> logits = chunks_of_logits(call, lengths);
    call.rebind_input(0, {});  // the model has returned: its names are gone
    for (const Ref& part : logits) call.keep_as_output(part);
    const std::int64_t classes = call.shape_of_parameter(0).shape[0];
    const Ref labels = tape.fresh(shape.batch * shape.sequence, dtype::int64, "shifted labels");
    Ref total;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const std::int64_t rows = shape.batch * lengths[i];
        Ref wide = tape.cast(logits[i], dtype::fp32);
        Ref part_labels = shape.batch > 1 ? tape.fresh(rows, dtype::int64, "labels of a chunk") : labels;
        Ref loss = tape.cross_entropy(std::move(wide), std::move(part_labels), rows, classes);
        total = total ? tape.add(std::move(total), std::move(loss)) : std::move(loss);
    }
    call.out(0, tape.mul_scalar(std::move(total)));
}

void litgpt_chunked_loss(KernelCall& call) {
    constexpr std::int64_t kTokens = 128;  // lm_head_chunk_size of the fine-tuning recipes
    Tape& tape = call.tape;
    const Extents& shape = call.extents;
    const std::int64_t longest =
        shape.loss_chunks > 0 ? divided_up(shape.sequence, shape.loss_chunks) : kTokens;
    auto lengths = chunk_lengths(shape.sequence, longest);
    const std::int64_t classes = call.shape_of_parameter(0).shape[0];
    std::vector<Ref> logits = chunks_of_logits(call, lengths);
    call.rebind_input(0, {});
    // Fabric hands outputs over in fp32 [lightning fabric/plugins/precision/half.py convert_output]:
    // a second list, after which the first goes.
    std::vector<Ref> wide;
    for (const Ref& part : logits) wide.push_back(tape.cast(part, dtype::fp32));
    logits = std::move(wide);
    // The last token predicts nothing: the list's last entry is rebound to a slice.
    lengths.back() -= 1;
    logits.back() = tape.slice(std::move(logits.back()), shape.batch * lengths.back() * classes);
    for (const Ref& part : logits) call.keep_as_output(part);
    std::vector<Ref> losses;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const std::int64_t rows = shape.batch * lengths[i];
        if (rows == 0) continue;
        Ref part = logits[i];
        if (shape.batch > 1 && i + 1 == logits.size()) part = tape.copy(std::move(part));
        Ref labels = shape.batch > 1 ? tape.fresh(rows, dtype::int64, "labels of a chunk") : Ref();
        losses.push_back(tape.cross_entropy(std::move(part), std::move(labels), rows, classes,
                                            Tape::Reduction::none));
    }
    const Ref all = tape.cat(losses);
    losses.clear();
    Ref sum = tape.fresh(1, all.dtype(), "sum of losses");
    Tape::NodeBuilder node(tape, "sum", {&all});
    node.pass_view(0);  // one number, expanded
    node.finish(sum);
    call.out(0, tape.mul_scalar(std::move(sum)));
}

void liger_loss(KernelCall& call) { FusedLinearLoss(call, true).run(); }

void liger_loss_with_products(KernelCall& call) { FusedLinearLoss(call, false).run(); }

}  // namespace membudget::kernel
