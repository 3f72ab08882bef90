// Rotary embedding: the tables of cosine and sine, and the rotation as each class writes it.

#include "stack/kernels.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

namespace {
using ViewGradient = Tape::ViewGradient;
}  // namespace

Ref cross_halves(Tape& tape, const Ref& x) {
    const Ref first = tape.slice(x, x.numel() / 2);
    const Ref second = tape.slice(x, x.numel() - x.numel() / 2);
    std::array<Ref, 2> parts{tape.neg(second), first};
    return tape.cat(parts);
}

Ref rotate(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin) {
    const Ref straight = tape.mul(x, cos);
    Ref half = cross_halves(tape, x);
    const Ref crossed = tape.mul(half, sin);
    half.reset();
    return tape.add(straight, crossed);
}

namespace {

/// The dimensions that rotate and those that do not. Indexing of a whole dimension returns the tensor
/// itself [torch/csrc/autograd/python_variable_indexing.cpp, ATen/TensorIndexing.h applySlice].
std::array<Ref, 2> cut(KernelCall& call, const Ref& x) {
    const OpAttributes& a = call.attributes();
    const std::int64_t heads = x.numel() / a.head_dim;
    Ref rotated = a.rotary_dim == a.head_dim ? x : call.tape.slice(x, heads * a.rotary_dim);
    return {std::move(rotated), call.tape.slice(x, heads * (a.head_dim - a.rotary_dim))};
}

/// Rotates `rotary_dim` of the `head_dim` dimensions, or all of them.
Ref rotate_part(KernelCall& call, const Ref& x, const Ref& cos, const Ref& sin) {
    if (call.attributes().rotary_dim == 0) return rotate(call.tape, x, cos, sin);
    const std::array<Ref, 2> parts = cut(call, x);
    std::array<Ref, 2> joined{rotate(call.tape, parts[0], cos, sin), parts[1]};
    return call.tape.cat(joined);
}

/// A part of each head of q and k rotated, then both concatenated with the rest, under the same names; in towers without
/// names of their own.
void rotate_then_join(KernelCall& call, const Ref& q, const Ref& k, const Ref& cos, const Ref& sin) {
    Tape& tape = call.tape;
    const std::array<Ref, 2> q_parts = cut(call, q);
    const std::array<Ref, 2> k_parts = cut(call, k);
    Ref q_rotated = rotate(tape, q_parts[0], cos, sin);
    Ref k_rotated = rotate(tape, k_parts[0], cos, sin);
    std::array<Ref, 2> q_joined{std::move(q_rotated), q_parts[1]};
    call.out(0, tape.cat(q_joined));
    if (!call.attributes().unbound) q_joined[0].reset();
    std::array<Ref, 2> k_joined{std::move(k_rotated), k_parts[1]};
    call.out(1, tape.cat(k_joined));
}

/// GLM: interleaved tables are locals, unless the tables are made so (GLM-4V).
void rotate_pairs(KernelCall& call, const Ref& q, const Ref& k) {
    Tape& tape = call.tape;
    const auto interleaved = [&](const Ref& table, const char* what) {
        return call.attributes().axes > 0 ? table : tape.fresh(table.numel(), table.dtype(), what);
    };
    const Ref cos = interleaved(call.in(2), "interleaved cosine");
    const Ref sin = interleaved(call.in(3), "interleaved sine");
    if (call.attributes().rotary_dim == 0) {  // Helium: the whole head
        call.out(0, rotate(tape, q, cos, sin));
        call.out(1, rotate(tape, k, cos, sin));
        return;
    }
    rotate_then_join(call, q, k, cos, sin);
}

/// GPT-J and CodeGen: the tensors are rotated before their heads are transposed, k before q.
void rotate_pairs_apart(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t positions = call.extents.sequence;
    const auto rotate_one = [&](const Ref& x) {
        const std::int64_t numel = detail::checked_mul(positions, a.rotary_dim);
        const Ref sin = tape.fresh(numel, call.in(3).dtype(), "interleaved sine");
        const Ref cos = tape.fresh(numel, call.in(2).dtype(), "interleaved cosine");
        return rotate(tape, x, cos, sin);
    };
    const Ref k = tape.view(call.in(1));
    const Ref q = tape.view(call.in(0));
    const std::array<Ref, 2> k_parts = cut(call, k);
    const std::array<Ref, 2> q_parts = cut(call, q);
    std::array<Ref, 2> k_joined{rotate_one(k_parts[0]), k_parts[1]};
    std::array<Ref, 2> q_joined{rotate_one(q_parts[0]), q_parts[1]};
    for (const auto* parts : {&k_joined, &q_joined}) call.hold_local((*parts)[0]);
    // CodeGen's tables are fp32, and so is what they rotate until it is cast back.
    Ref k_whole = tape.cat(k_joined);
    Ref q_whole = tape.cat(q_joined);
    call.out(0, tape.cast(std::move(q_whole), q.dtype()));
    call.out(1, tape.cast(std::move(k_whole), k.dtype()));
}

/// Cohere: copies of q and k in fp32, cast back at the end.
void rotate_pairs_wide(KernelCall& call, const Ref& q_in, const Ref& k_in) {
    Tape& tape = call.tape;
    const Dtype& type = q_in.dtype();
    const Ref q = tape.cast(q_in, dtype::fp32);
    const Ref k = tape.cast(k_in, dtype::fp32);
    const Ref q_rotated = rotate(tape, q, call.in(2), call.in(3));
    const Ref k_rotated = rotate(tape, k, call.in(2), call.in(3));
    call.out(0, tape.cast(q_rotated, type));
    call.out(1, tape.cast(k_rotated, type));
}

/// ERNIE 4.5 [models/ernie4_5/modeling_ernie4_5.py apply_rotary_pos_emb]: what crosses is cast to fp32 like
/// the tensor itself; both sums are cast back at the end.
void rotate_pairs_cast(KernelCall& call, const Ref& q, const Ref& k) {
    Tape& tape = call.tape;
    const Ref cos = tape.fresh(call.in(2).numel(), dtype::fp32, "interleaved cosine");
    const Ref sin = tape.fresh(call.in(3).numel(), dtype::fp32, "interleaved sine");
    const auto wide = [&](const Ref& x) {
        const Ref straight = tape.mul(tape.cast(x, dtype::fp32), cos);
        const Ref crossed = tape.mul(tape.cast(cross_halves(tape, x), dtype::fp32), sin);
        return tape.add(straight, crossed);
    };
    const Ref q_rotated = wide(q);
    const Ref k_rotated = wide(k);
    call.out(0, tape.cast(q_rotated, q.dtype()));
    call.out(1, tape.cast(k_rotated, k.dtype()));
}

/// RoFormer [models/roformer/modeling_roformer.py apply_rotary_position_embeddings]: sine and cosine are halves
/// of one lookup; what crosses keeps its name.
void rotate_sinusoids(KernelCall& call, const Ref& q, const Ref& k) {
    Tape& tape = call.tape;
    const Ref sin = tape.fresh(call.in(2).numel(), call.in(2).dtype(), "interleaved sine");
    const Ref cos = tape.fresh(call.in(2).numel(), call.in(2).dtype(), "interleaved cosine");
    const auto rotated = [&](const Ref& x, Ref& half) {
        half = cross_halves(tape, x);
        const Ref straight = tape.mul(x, cos);
        const Ref crossed = tape.mul(half, sin);
        return tape.add(straight, crossed);
    };
    Ref q_half, k_half;
    call.out(0, rotated(q, q_half));
    call.out(1, rotated(k, k_half));
}

/// ModernBERT [models/modernbert/modeling_modernbert.py apply_rotary_pos_emb]: each factor has a copy in
/// fp32 of its own, and both sums are cast back at the end.
void rotate_halves_wide(KernelCall& call, const Ref& q, const Ref& k) {
    Tape& tape = call.tape;
    const auto wide = [&](const Ref& x) {
        const Ref straight = tape.mul(tape.cast(x, dtype::fp32), call.in(2));
        Ref half = cross_halves(tape, tape.cast(x, dtype::fp32));
        const Ref crossed = tape.mul(half, call.in(3));
        half.reset();
        return tape.add(straight, crossed);
    };
    const Ref q_rotated = wide(q);
    const Ref k_rotated = wide(k);
    call.out(0, tape.cast(q_rotated, q.dtype()));
    call.out(1, tape.cast(k_rotated, k.dtype()));
}

/// Qwen2-VL's tower [models/qwen2_vl/modeling_qwen2_vl.py apply_rotary_pos_emb_vision]: of one copy in
/// fp32 each; the sum's name is bound to what it is cast to.
void rotate_halves_cast(KernelCall& call, const Ref& q_in, const Ref& k_in) {
    Tape& tape = call.tape;
    const Ref q = tape.cast(q_in, dtype::fp32);
    const Ref k = tape.cast(k_in, dtype::fp32);
    Ref q_rotated = rotate(tape, q, call.in(2), call.in(3));
    Ref k_rotated = rotate(tape, k, call.in(2), call.in(3));
    q_rotated = tape.cast(std::move(q_rotated), q_in.dtype());
    k_rotated = tape.cast(std::move(k_rotated), k_in.dtype());
    call.out(0, std::move(q_rotated));
    call.out(1, std::move(k_rotated));
}

}  // namespace

Ref rotate_even_odd(Tape& tape, const Ref& even, const Ref& odd, const Ref& cos, const Ref& sin) {
    Ref first;
    {
        const Ref straight = tape.mul(even, cos);
        const Ref crossed = tape.mul(odd, sin);
        first = tape.sub(straight, crossed);
    }
    Ref second;
    {
        const Ref straight = tape.mul(odd, cos);
        const Ref crossed = tape.mul(even, sin);
        second = tape.add(straight, crossed);
    }
    std::array<Ref, 2> parts{std::move(first), std::move(second)};
    return tape.cat(parts);
}

namespace {

/// gpt-oss: the same of the two halves [modeling_gpt_oss.py _apply_rotary_emb].
Ref rotate_chunks(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin) {
    const std::array<std::int64_t, 2> halves{x.numel() / 2, x.numel() / 2};
    const std::vector<Ref> parts = tape.chunk(x, halves);
    return rotate_even_odd(tape, parts[0], parts[1], cos, sin);
}

/// A product of complex numbers, which a tensor of fp32 holds side by side, with frequencies.
Ref complex_product(Tape& tape, const Ref& wide, const Ref& frequencies) {
    Ref product = tape.fresh(wide.numel(), dtype::fp32, "complex product");
    Tape::NodeBuilder node(tape, "complex mul", {&wide});
    node.save(frequencies);
    node.grad(0);
    node.finish(product);
    return product;
}

/// view_as_real(view_as_complex(x.float()) * frequencies).type_as(x)
/// [modeling_deepseek_v2.py apply_rotary_emb]; the frequencies take the place of the cosine.
Ref rotate_complex(Tape& tape, const Ref& x, const Ref& frequencies) {
    const Ref wide = tape.cast(x, dtype::fp32);
    const Ref product = complex_product(tape, wide, frequencies);
    return tape.cast(product, x.dtype());
}

/// Llama 4: queries and keys are viewed head by head, and transposed when they are rotated; each step has names for
/// both. The frequencies of patches are a buffer [modeling_llama4.py apply_rotary_emb, vision_apply_rotary_emb].
void rotate_whole_complex(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref frequencies =
        call.inputs() > 2 ? call.in(2) : tape.borrow(call.attributes().head_dim, dtype::fp32, false);
    const Ref q = tape.cast(tape.view(call.in(0)), dtype::fp32);
    const Ref k = tape.cast(tape.view(call.in(1)), dtype::fp32);
    const Ref q_rotated = complex_product(tape, q, frequencies);
    const Ref k_rotated = complex_product(tape, k, frequencies);
    const Dtype& type = call.in(0).dtype();
    call.out(0, tape.cast(q_rotated, type));
    call.out(1, tape.cast(k_rotated, type));
}

/// OLMo [models/olmo/modeling_olmo.py apply_rotary_pos_emb]: products with tables in fp32, cast back at the end.
void rotate_halves_promoted(KernelCall& call, const Ref& q, const Ref& k) {
    const Ref q_rotated = rotate_part(call, q, call.in(2), call.in(3));
    const Ref k_rotated = rotate_part(call, k, call.in(2), call.in(3));
    call.out(0, call.tape.cast(q_rotated, q.dtype()));
    call.out(1, call.tape.cast(k_rotated, k.dtype()));
}

/// Phi, Persimmon, StableLM [models/phi/modeling_phi.py PhiAttention.forward]: both parts of both tensors are names
/// of the attention's function, and both are rotated before either is concatenated.
void rotate_halves_named(KernelCall& call, const Ref& q, const Ref& k) {
    const std::array<Ref, 2> q_parts = cut(call, q);
    const std::array<Ref, 2> k_parts = cut(call, k);
    std::array<Ref, 2> q_joined{rotate(call.tape, q_parts[0], call.in(2), call.in(3)), q_parts[1]};
    std::array<Ref, 2> k_joined{rotate(call.tape, k_parts[0], call.in(2), call.in(3)), k_parts[1]};
    call.out(0, call.tape.cat(q_joined));
    call.out(1, call.tape.cat(k_joined));
    for (const auto* joined : {&q_joined, &k_joined})
        for (const Ref& part : *joined) call.hold_local(part);
}

/// DINOv3 [models/dinov3_vit/modeling_dinov3_vit.py apply_rotary_pos_emb]: class and register tokens are split off,
/// and concatenated again.
void rotate_patches(KernelCall& call, const Ref& q, const Ref& k) {
    Tape& tape = call.tape;
    const std::int64_t images = sequences_of(call, 0);
    const std::int64_t width = q.numel() / call.rows(call.input_tensor(0));
    const std::int64_t patches = detail::checked_mul(detail::checked_mul(images, call.rows(call.input_tensor(2))), width);
    const std::array<std::int64_t, 2> numels{q.numel() - patches, patches};
    std::vector<Ref> q_parts = tape.chunk(q, numels);
    std::vector<Ref> k_parts = tape.chunk(k, numels);
    q_parts[1] = rotate(tape, q_parts[1], call.in(2), call.in(3));
    k_parts[1] = rotate(tape, k_parts[1], call.in(2), call.in(3));
    call.out(0, tape.cat(q_parts));
    call.out(1, tape.cat(k_parts));
}

/// Latent attention: the last `rotary_dim` of each query head, and the one key of all heads, rotate.
void rotate_latent(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Ref q = tape.view(call.in(0), ViewGradient::copy);
    const Ref key = tape.view(call.in(1));
    const std::int64_t heads = q.numel() / a.head_dim;
    const std::array<std::int64_t, 2> widths{heads * (a.head_dim - a.rotary_dim),
                                             heads * a.rotary_dim};
    const std::vector<Ref> parts = tape.chunk(q, widths);
    Ref rotated_q;
    Ref rotated_k;
    if (a.rotation == Rotation::latent) {
        const Ref q_even = tape.slice(parts[1], parts[1].numel() / 2);
        const Ref q_odd = tape.slice(parts[1], parts[1].numel() / 2);
        const Ref k_even = tape.slice(key, key.numel() / 2);
        const Ref k_odd = tape.slice(key, key.numel() / 2);
        rotated_q = rotate_even_odd(tape, q_even, q_odd, call.in(2), call.in(3));
        rotated_k = rotate_even_odd(tape, k_even, k_odd, call.in(2), call.in(3));
    } else if (a.rotation == Rotation::latent_halves) {
        rotated_q = rotate(tape, parts[1], call.in(2), call.in(3));
        rotated_k = rotate(tape, key, call.in(2), call.in(3));
    } else {
        rotated_q = rotate_complex(tape, parts[1], call.in(2));
        rotated_k = rotate_complex(tape, key, call.in(2));
    }
    call.hold_local(rotated_q);
    std::array<Ref, 2> joined{parts[0], rotated_q};
    call.out(0, tape.cat(joined));
    call.out(1, std::move(rotated_k));
}

}  // namespace

void latent_expand(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Ref both = tape.view(call.in(0), ViewGradient::copy);
    const std::int64_t heads = both.numel() / (a.head_dim - a.rotary_dim + a.value_dim);
    const std::array<std::int64_t, 2> widths{heads * (a.head_dim - a.rotary_dim),
                                             heads * a.value_dim};
    const std::vector<Ref> parts = tape.chunk(both, widths);
    const Ref& rotated = call.in(1);
    // new_empty, then copy_ into two slices: in backward each takes a copy of the whole gradient, and
    // hands on a copy of its slice [torch/csrc/autograd/functions/tensor.cpp CopySlices::apply_impl].
    Ref key = tape.fresh(heads * a.head_dim, both.dtype(), "key");
    const std::int64_t whole = byte_count(key.numel(), key.dtype());
    for (const Ref* part : {&parts[0], &rotated}) {
        Ref written = tape.alias_of_storage(key);
        Tape::NodeBuilder node(tape, "CopySlices", {&key, part});
        node.grad(0, "copy of the gradient");
        if (part->numel() == heads * a.rotary_dim || part == &parts[0]) {
            node.grad(1, "slice of the gradient");
        } else {  // one key for all heads: summed
            const std::int16_t slice = node.temp(whole / a.head_dim * a.rotary_dim, "expanded grad");
            node.grad(1, "reduced grad");
            node.drop(slice);
        }
        node.finish(written);
        key = std::move(written);
    }
    call.out(0, std::move(key));
    call.out(1, parts[1]);
}

void hf_rotary(KernelCall& call) {
    if (call.attributes().rotation == Rotation::trailing)
        return call.out(0, rotate_trailing(call.tape, call.in(0), call.in(1), call.in(2), call.attributes().head_dim,
                                           call.attributes().rotary_dim));
    if (call.attributes().rotation == Rotation::axial)
        return call.out(0, rotate_axial(call.tape, call.in(0), call.in(1), call.in(2)));
    if (call.op.outputs.size() == 1)  // before heads are transposed
        return call.out(0, rotate(call.tape, call.in(0), call.in(1), call.in(2)));
    const Rotation rotation = call.attributes().rotation;
    if (rotation == Rotation::latent || rotation == Rotation::latent_complex || rotation == Rotation::latent_halves)
        return rotate_latent(call);
    if (rotation == Rotation::pairs_apart || rotation == Rotation::pairs_apart_promoted) return rotate_pairs_apart(call);
    if (rotation == Rotation::complex) return rotate_whole_complex(call);
    // The projections' outputs are viewed head by head and transposed; the gradient of a rotation is
    // contiguous the other way round, so it is copied on its way back.
    // Falcon cuts its projection by indexing, which takes gradients of any layout.
    const OpAttributes& a = call.attributes();
    const auto gradient = [&](std::int64_t heads) {
        const bool any = a.form == AttentionForm::falcon || a.unbound;
        return any ? ViewGradient::view : transposed_gradient(heads);
    };
    const Ref q = call.tape.view(call.in(0), gradient(a.heads));
    const Ref k = call.tape.view(call.in(1), gradient(a.kv_heads));
    if (rotation == Rotation::chunks) {
        call.out(0, rotate_chunks(call.tape, q, call.in(2), call.in(3)));
        call.out(1, rotate_chunks(call.tape, k, call.in(2), call.in(3)));
        return;
    }
    if (rotation == Rotation::of_patches) return rotate_patches(call, q, k);
    if (rotation == Rotation::pairs) return rotate_pairs(call, q, k);
    if (rotation == Rotation::pairs_cast) return rotate_pairs_cast(call, q, k);
    if (rotation == Rotation::sinusoids) return rotate_sinusoids(call, q, k);
    if (rotation == Rotation::halves_cast) return rotate_halves_cast(call, q, k);
    if (rotation == Rotation::halves_promoted) return rotate_halves_promoted(call, q, k);
    if (rotation == Rotation::halves_named) return rotate_halves_named(call, q, k);
    if (rotation == Rotation::halves_joined) return rotate_then_join(call, q, k, call.in(2), call.in(3));
    if (rotation == Rotation::halves_wide) return rotate_halves_wide(call, q, k);
    if (rotation == Rotation::pairs_wide) return rotate_pairs_wide(call, q, k);
    call.out(0, rotate_part(call, q, call.in(2), call.in(3)));
    call.out(1, rotate_part(call, k, call.in(2), call.in(3)));
}

void fused_rotary(KernelCall& call) {
    call.out(0, call.tape.view(call.in(0)));
    if (call.op.outputs.size() > 1) call.out(1, call.tape.view(call.in(1)));
}

namespace {

/// Tables of each token, of positions in several directions. Three: every direction has all frequencies, and
/// the sections of a table come from one each [models/qwen2_vl/modeling_qwen2_vl.py
/// Qwen2VLRotaryEmbedding.forward; interleaved: models/qwen3_vl/modeling_qwen3_vl.py
/// Qwen3VLTextRotaryEmbedding.forward]. Two: they share the frequencies [models/pixtral/modeling_pixtral.py
/// PixtralVisionRotaryEmbedding.forward]. Where the rotation is in fp32 the tables stay so
/// [Qwen2VLVisionRotaryEmbedding.forward].
void tables_of_directions(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const bool shared = a.axes == 2;
    const std::int64_t angles_numel = shared ? numel / 2 : detail::checked_mul(a.axes, numel / 2);
    Ref angles;
    {
        const Ref positions = tape.fresh(angles_numel * 2 * (shared ? 2 : 1) / a.rotary_dim, dtype::fp32, "positions");
        angles = tape.fresh(angles_numel, dtype::fp32, "angles");
    }
    const auto function_of_angles = [&](const char* what) {
        const Ref value = tape.fresh(angles_numel, dtype::fp32, what);
        return tape.mul_scalar(value);
    };
    Ref cosine = function_of_angles("cosine");
    Ref sine = function_of_angles("sine");
    const auto composed = [&](const char* what) {
        const Ref half = a.interleaved ? Ref() : tape.fresh(numel / 2, dtype::fp32, "sections");
        return tape.fresh(numel, dtype::fp32, what);
    };
    sine = composed("sine");
    cosine = composed("cosine");
    angles.reset();
    const Ref narrow = call.inputs() > 0 ? call.in(0) : Ref();
    const Dtype& type = a.rotation == Rotation::halves_cast ? dtype::fp32
                        : narrow                            ? narrow.dtype()
                                                            : call.activation_dtype();
    call.out(0, tape.cast(std::move(cosine), type));
    call.out(1, tape.cast(std::move(sine), type));
}

}  // namespace

void rotary_tables(KernelCall& call) {
    if (call.attributes().axes > 0) return tables_of_directions(call);
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Rotation rotation = call.attributes().rotation;
    const bool wide = rotation == Rotation::pairs_cast || rotation == Rotation::halves_promoted ||
                      rotation == Rotation::pairs_apart_promoted;
    const Dtype& type = wide ? dtype::fp32 : call.activation_dtype();
    if (rotation == Rotation::sinusoids)  // of a parameter that is frozen
        return call.out(0, tape.fresh(numel, call.parameter(0).dtype(), "sine and cosine"));
    if (rotation == Rotation::of_patches) {  // [models/dinov3_vit DINOv3ViTRopePositionEmbedding.forward]
        const Ref angles = tape.fresh(numel, dtype::fp32, "angles");
        const Ref cosine = tape.fresh(numel, dtype::fp32, "cosine");
        const Ref sine = tape.fresh(numel, dtype::fp32, "sine");
        call.out(0, tape.cast(cosine, type));
        call.out(1, tape.cast(sine, type));
        return;
    }
    if (rotation == Rotation::pairs_apart || rotation == Rotation::pairs_apart_promoted) {
        // One gathered table, sine and cosine of half its width each [modeling_gptj.py].
        const Ref both = tape.fresh(numel, type, "sine and cosine");
        call.out(0, both);
        call.out(1, both);
        return;
    }
    if (rotation == Rotation::latent_complex || rotation == Rotation::complex) {
        // torch.polar(ones, frequencies) * scaling, complex numbers of two fp32 each.
        const Ref frequencies = tape.fresh(numel / 2, dtype::fp32, "frequencies");
        const Ref ones = tape.fresh(numel / 2, dtype::fp32, "ones");
        const Ref polar = tape.fresh(numel, dtype::fp32, "complex frequencies");
        Ref scaled = tape.mul_scalar(polar);
        call.out(0, scaled);
        call.out(1, std::move(scaled));
        return;
    }
    const bool halves = rotation != Rotation::chunks && rotation != Rotation::trailing;
    // emb = cat(freqs, freqs); cos = emb.cos() * scaling; sin likewise; both cast to the type of x.
    Ref half = tape.fresh(halves ? numel / 2 : numel, dtype::fp32, "frequencies");
    const Ref angles = halves ? tape.fresh(numel, dtype::fp32, "angles") : half;
    Ref cosine = tape.fresh(numel, dtype::fp32, "cosine");
    const Ref scaled_cosine = tape.mul_scalar(cosine);
    cosine.reset();
    Ref sine = tape.fresh(numel, dtype::fp32, "sine");
    const Ref scaled_sine = tape.mul_scalar(sine);
    sine.reset();
    call.out(0, tape.cast(scaled_cosine, type));
    call.out(1, tape.cast(scaled_sine, type));
}

}  // namespace membudget::kernel
