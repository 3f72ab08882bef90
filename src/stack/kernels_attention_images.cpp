// Attention of vision towers over packed images [transformers models/qwen2_vl/modeling_qwen2_vl.py
// VisionAttention.forward].

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

namespace {

/// Patches of each image, or of each window of each image [transformers vision_utils.py
/// get_vision_cu_seqlens, get_vision_window_index].
std::vector<std::int64_t> lengths_of(const KernelCall& call) {
    const Extents& e = call.extents;
    const std::int64_t window = call.attributes().image_window;
    const auto images = static_cast<std::size_t>(e.images);
    if (window == 0) return std::vector<std::int64_t>(images, e.patches / e.images);
    std::vector<std::int64_t> one;
    const std::int64_t merged = e.patches / e.image_tokens;
    for (std::int64_t row = 0; row < e.image_rows; row += window)
        for (std::int64_t column = 0; column < e.image_columns; column += window)
            one.push_back(std::min(window, e.image_rows - row) * std::min(window, e.image_columns - column) * merged);
    std::vector<std::int64_t> all;
    for (std::size_t image = 0; image < images; ++image) all.insert(all.end(), one.begin(), one.end());
    return all;
}

}  // namespace

bool run_image_by_image(KernelCall& call, void (*attend)(KernelCall& call)) {
    if (!call.attributes().each_image) return false;
    Tape& tape = call.tape;
    const std::vector<std::int64_t> lengths = lengths_of(call);
    std::array<std::vector<Ref>, 3> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        std::vector<std::int64_t> numels;
        for (const std::int64_t length : lengths)
            numels.push_back(detail::checked_mul(length, call.input_tensor(i).width));
        parts[i] = tape.chunk(call.in(i), numels);
    }
    Op one = call.op;
    one.attributes.each_image = false;
    std::vector<Ref> outputs;
    for (std::size_t piece = 0; piece < lengths.size(); ++piece) {
        Extents shape = call.extents;
        shape.images = 1;
        shape.patches = lengths[piece];
        std::vector<Ref> tensors(call.block.tensors.size());
        for (std::size_t i = 0; i < parts.size(); ++i)
            tensors[static_cast<std::size_t>(one.inputs[i])] = parts[i][piece];
        std::vector<Ref> held;
        KernelCall part = call.with(one, shape, tensors, held);
        attend(part);
        outputs.push_back(tensors[static_cast<std::size_t>(one.outputs.front())]);
        if (call.attributes().returns_weights)
            for (Ref& weights : held) call.hold(std::move(weights));
    }
    call.out(0, tape.cat(outputs));
    for (Ref& output : outputs) call.hold_local(std::move(output));
    return true;
}

}  // namespace membudget::kernel
