// The head and the loss as one op: what chunked and fused losses replace.

#include <algorithm>

#include <fmt/format.h>

#include "membudget/model.hpp"

namespace membudget {

namespace {

/// Index of the op that makes `tensor`; -1: it comes from outside.
int maker_of(const Block& block, int tensor) {
    for (std::size_t i = 0; i < block.ops.size(); ++i)
        if (std::find(block.ops[i].outputs.begin(), block.ops[i].outputs.end(), tensor) !=
            block.ops[i].outputs.end())
            return static_cast<int>(i);
    return -1;
}

Diagnostic no_loss(std::string why) {
    return {Trouble::unsupported, "", "", std::move(why), ""};
}

}  // namespace

Result<Model> with_linear_loss(Model model) {
    Block& head = model.blocks[static_cast<std::size_t>(model.sections.back().pattern.front())];
    auto& ops = head.ops;
    const auto loss = std::find_if(ops.begin(), ops.end(),
                                   [](const Op& op) { return op.kind == OpKind::causal_lm_loss; });
    if (loss == ops.end()) return no_loss("its loss is not that of a causal language model");
    if (loss->attributes.routers > 0) return no_loss("its routers' logits join the loss (output_router_logits)");
    int made = maker_of(head, loss->inputs.front());
    double softcap = 0;
    if (made >= 0 && ops[static_cast<std::size_t>(made)].kind == OpKind::softcap) {
        softcap = ops[static_cast<std::size_t>(made)].attributes.softcap;
        made = maker_of(head, ops[static_cast<std::size_t>(made)].inputs.front());
    }
    if (made < 0 || ops[static_cast<std::size_t>(made)].kind != OpKind::linear)
        return no_loss("its logits are not what the head's matrix product gives");
    const Op product = ops[static_cast<std::size_t>(made)];
    if (product.parameters.empty()) return no_loss("its head has no weight of its own");

    Op joint = product;
    joint.kind = OpKind::linear_loss;
    joint.term = loss->term;
    joint.outputs.insert(joint.outputs.begin(), loss->outputs.front());
    joint.attributes.softcap = softcap;
    ops.erase(ops.begin() + made, loss + 1);
    ops.insert(ops.begin() + made, std::move(joint));
    const int end = static_cast<int>(ops.size());
    for (Scope& scope : head.scopes) scope.end_op = std::min(scope.end_op, end);
    std::erase_if(head.scopes, [](const Scope& scope) { return scope.first_op >= scope.end_op; });
    return model;
}

}  // namespace membudget
