/// What must hold for the ops of every model.

#include <algorithm>
#include <set>

#include "build.hpp"

using namespace membudget;

namespace {

const Block& block_of(const Model& model, std::string_view name) {
    for (const Block& block : model.blocks)
        if (block.name == name) return block;
    FAIL("no block " << name);
    return model.blocks.front();
}

/// Each tensor is made once, before it is read; shared ones and the input are there from the start.
void check_dataflow(const Block& block) {
    std::vector<bool> made(block.tensors.size(), false);
    for (std::size_t i = 0; i < block.tensors.size(); ++i)
        made[i] = block.tensors[i].shared >= 0 || static_cast<int>(i) == block.input;
    for (const Op& op : block.ops) {
        INFO(op.name);
        for (const int input : op.inputs)  // images are the batch's
            CHECK((made[static_cast<std::size_t>(input)] || op.kind == OpKind::conv_patches));
        for (const int output : op.outputs) {
            const auto index = static_cast<std::size_t>(output);
            if (block.tensors[index].shared < 0) CHECK_FALSE(made[index]);
            made[index] = true;
        }
        CHECK(op.term.starts_with("activations/"));
    }
    if (block.output >= 0) CHECK(made[static_cast<std::size_t>(block.output)]);
}

/// Each parameter is read by exactly one op, but for another name of a tensor in the same block, and for
/// layers that share their parameters, the mask token, which only masked pretraining reads, and AltUp's router, which
/// runs before and after a layer.
void check_parameters(const Block& block) {
    std::vector<int> readers(block.parameters.size(), 0);
    for (const Op& op : block.ops)
        for (const int parameter : op.parameters) ++readers[static_cast<std::size_t>(parameter)];
    std::set<std::string> names;
    for (const Parameter& parameter : block.parameters) names.insert(parameter.name);
    CHECK(names.size() == block.parameters.size());
    for (std::size_t i = 0; i < readers.size(); ++i) {
        INFO(block.parameters[i].name);
        const std::string& tied = block.parameters[i].tied_to;
        const bool other_name = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return name != block.parameters[i].name && tied.ends_with(name);
        });
        const bool unread = other_name || block.parameters[i].name == "embeddings.mask_token";
        const std::string& name = block.parameters[i].name;
        const bool twice = name.starts_with("altup.router_norm.") || name.starts_with("altup.modality_router.");
        CHECK((block.name == "layer group" ? std::min(readers[i], 1) : readers[i]) == (unread ? 0 : twice ? 2 : 1));
    }
}

/// Scopes nest, and the first is the whole block.
void check_scopes(const Block& block) {
    REQUIRE_FALSE(block.scopes.empty());
    CHECK(block.scopes.front().first_op == 0);
    CHECK(block.scopes.front().end_op == static_cast<int>(block.ops.size()));
    for (const Scope& a : block.scopes) {
        CHECK(a.first_op <= a.end_op);
        for (const Scope& b : block.scopes) {
            const bool apart = a.end_op <= b.first_op || b.end_op <= a.first_op;
            const bool a_in_b = b.first_op <= a.first_op && a.end_op <= b.end_op;
            const bool b_in_a = a.first_op <= b.first_op && b.end_op <= a.end_op;
            CHECK((apart || a_in_b || b_in_a));
        }
    }
}

void check_sections(const Model& model) {
    std::int64_t width = -1;
    for (const Section& section : model.sections) {
        CHECK(section.count > 0);
        REQUIRE_FALSE(section.pattern.empty());
        for (const int index : section.pattern) {
            const Block& block = model.blocks[static_cast<std::size_t>(index)];
            INFO(block.name);
            if (block.input >= 0)
                CHECK(block.tensors[static_cast<std::size_t>(block.input)].width == width);
            if (block.output >= 0)
                width = block.tensors[static_cast<std::size_t>(block.output)].width;
        }
    }
}

}  // namespace

TEST_CASE("ops, parameters, scopes and sections of every family hold together") {
    for (const Family& family : families()) {
        INFO(family.name);
        const auto model = build_model(defaults_of(family));
        REQUIRE(model.ok());
        if (!model->step_unsupported.empty()) {
            CHECK_FALSE(model->step_unsupported.ends_with("."));
            continue;
        }
        for (const Block& block : model->blocks) {
            INFO(block.name);
            check_dataflow(block);
            check_parameters(block);
            check_scopes(block);
        }
        check_sections(*model);
    }
}

TEST_CASE("a tied name refers to a parameter of the model") {
    for (const char* config : {R"({"model_type": "gpt2"})", R"({"model_type": "bert"})",
                               R"({"model_type": "opt"})", R"({"model_type": "gemma2"})"}) {
        INFO(config);
        const Model model = model_of(config);
        int tied = 0;
        model.for_each_parameter([&](const std::string&, const Parameter& parameter, std::int64_t) {
            if (parameter.tied_to.empty()) return;
            ++tied;
            const Parameter* target = find_parameter(model, parameter.tied_to);
            REQUIRE(target != nullptr);
            CHECK(target->shape == parameter.shape);
        });
        CHECK(tied > 0);
    }
}

TEST_CASE("equal layers are one block, whatever their number") {
    const Model model = model_of(R"({"model_type": "llama", "num_hidden_layers": 126})");
    REQUIRE(model.blocks.size() == 3);
    REQUIRE(model.sections.size() == 3);
    CHECK(model.sections[1].count == 126);
    CHECK(model.blocks[1].checkpointable);
}

TEST_CASE("alternating layers are a pattern") {
    const Model model = model_of(R"({"model_type": "gemma2", "num_hidden_layers": 26})");
    REQUIRE(model.sections.size() == 3);
    CHECK(model.sections[1].pattern == std::vector<int>{1, 2});
    CHECK(model.sections[1].count == 13);
    const auto window = [&](int block) {
        for (const Op& op : model.blocks[static_cast<std::size_t>(block)].ops)
            if (op.kind == OpKind::attention) return op.attributes.window;
        return std::int64_t{-1};
    };
    CHECK(window(1) == 4096);
    CHECK(window(2) == 0);
    CHECK(model.shared.size() == 4);  // two masks, cos and sin
}

TEST_CASE("the ops of a Llama layer stand in the order of its forward") {
    const Model model = model_of(R"({"model_type": "llama"})");
    std::string names;
    for (const Op& op : block_of(model, "decoder layer").ops) {
        if (!names.empty()) names += " ";
        names += op.name;
    }
    CHECK(names ==
          "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.rotary "
          "self_attn.attention self_attn.o_proj attention_residual post_attention_layernorm "
          "mlp.gate_proj mlp.up_proj mlp.act_fn mlp.down_proj mlp_residual");
}

TEST_CASE("BERT runs its norms after the sums and masks both ways") {
    const Model model = model_of(R"({"model_type": "bert"})");
    const Block& layer = block_of(model, "encoder layer");
    CHECK(layer.ops.back().kind == OpKind::layer_norm);
    for (const Op& op : layer.ops)
        if (op.kind == OpKind::attention) CHECK_FALSE(op.attributes.causal);
    CHECK(block_of(model, "head").ops.back().kind == OpKind::masked_lm_loss);
}

TEST_CASE("SmolLM3 leaves every fourth layer without rotation") {
    const Model model = model_of(R"({"model_type": "smollm3"})");
    REQUIRE(model.sections.size() == 3);
    CHECK(model.sections[1].pattern.size() == 4);
    CHECK(model.sections[1].count == 9);
    CHECK(model.blocks.size() == 4);
}
