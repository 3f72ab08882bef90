#include "membudget/stack.hpp"

namespace membudget {

// Bytes per parameter in the docs: weight + gradient + master + two Adam states.
Table<Precision> precisions() {
    static const Precision rows[] = {
        {.name = "fp32",
         .doc = "everything in fp32: 4 + 4 + 0 + 8 bytes per parameter with Adam",
         .parameters = &dtype::fp32,
         .source = "torch.nn.Module's default type; torch.optim states are zeros_like(parameter)"},
        {.name = "bf16-autocast",
         .doc = "torch.autocast(bfloat16) over fp32 weights: 4 + 4 + 0 + 8 and bf16 copies of the weights "
                "that matrix products use",
         .parameters = &dtype::fp32,
         .autocast = &dtype::bf16,
         .source = "pytorch aten/src/ATen/autocast_mode.cpp @008ec6b1 (cast cache)"},
        {.name = "fp16-autocast",
         .doc = "torch.autocast(float16) with a gradient scaler over fp32 weights: 4 + 4 + 0 + 8 and fp16 "
                "copies of the weights that matrix products use",
         .parameters = &dtype::fp32,
         .autocast = &dtype::fp16,
         .source = "pytorch aten/src/ATen/autocast_mode.cpp @008ec6b1; GradScaler unscales in place"},
        {.name = "bf16",
         .doc = "everything in bf16 (model.to(bfloat16)): 2 + 2 + 0 + 4",
         .parameters = &dtype::bf16,
         .source = "pytorch 2.13 torch/optim/adam.py: states are zeros_like(parameter)"},
        {.name = "fp16",
         .doc = "everything in fp16 (model.half()): 2 + 2 + 0 + 4",
         .parameters = &dtype::fp16,
         .source = "pytorch 2.13 torch/optim/adam.py: states are zeros_like(parameter)"},
        {.name = "bf16-fp32-master",
         .doc = "bf16 weights, fp32 main gradients and fp32 master weights: 2 + 4 + 4 + 8",
         .parameters = &dtype::bf16,
         .gradients = &dtype::fp32,
         .master_weights = &dtype::fp32,
         .source = "Megatron-LM docs/user-guide/features/dist_optimizer.md (18 bytes per parameter)"},
        {.name = "fp16-fp32-master",
         .doc = "fp16 weights and gradients, fp32 master weights: 2 + 2 + 4 + 8",
         .parameters = &dtype::fp16,
         .master_weights = &dtype::fp32,
         .source = "Rajbhandari et al., ZeRO, arXiv:1910.02054 section 3.1 (16 bytes per parameter)"},
        {.name = "megatron-bf16",
         .doc = "Megatron-LM --bf16: bf16 weights, one fp32 gradient buffer, fp32 master weights: 2 + 4 + 4 "
                "+ 8; with the distributed optimizer 6 + 12/d",
         .parameters = &dtype::bf16,
         .gradients = &dtype::fp32,
         .master_weights = &dtype::fp32,
         .gradient_buffer = true,
         .source = "Megatron-Core 0.16.1 core/distributed/param_and_grad_buffer.py, "
                   "core/optimizer/optimizer.py"},
        {.name = "megatron-bf16-grad-reduce-in-bf16",
         .doc = "Megatron-LM --bf16 --grad-reduce-in-bf16: 2 + 2 + 4 + 8, and an fp32 copy of the gradients "
                "for the step",
         .parameters = &dtype::bf16,
         .gradients = &dtype::bf16,
         .master_weights = &dtype::fp32,
         .gradient_buffer = true,
         .gradient_copy = &dtype::fp32,
         .source = "Megatron-Core 0.16.1 core/optimizer/optimizer.py: main_param.grad = main_grad.float()"},
        {.name = "megatron-fp16",
         .doc = "Megatron-LM --fp16: fp16 weights and gradient buffer, fp32 master weights, and an fp32 copy "
                "of the gradients for the step: 2 + 2 + 4 + 8 + 4; with the distributed optimizer 4 + 16/d",
         .parameters = &dtype::fp16,
         .gradients = &dtype::fp16,
         .master_weights = &dtype::fp32,
         .gradient_buffer = true,
         .gradient_copy = &dtype::fp32,
         .source = "Megatron-LM docs/user-guide/features/dist_optimizer.md; Megatron-Core 0.16.1 "
                   "core/optimizer/optimizer.py"},
        {.name = "megatron-fp32",
         .doc = "Megatron-LM without --bf16 or --fp16: 4 + 4 + 0 + 8; with the distributed optimizer 8 + 8/d",
         .parameters = &dtype::fp32,
         .gradient_buffer = true,
         .source = "Megatron-LM docs/user-guide/features/dist_optimizer.md"},
        {.name = "megatron-precision-aware",
         .doc = "Megatron-LM --use-precision-aware-optimizer with the distributed optimizer: master weights "
                "kept as the 16 bits that bf16 lacks: 2 + 4 + (2 + 8)/d; smaller moments by optimizer.states",
         .parameters = &dtype::bf16,
         .gradients = &dtype::fp32,
         .master_weights = &dtype::int16,
         .states = &dtype::fp32,
         .gradient_buffer = true,
         .source = "Megatron-Core 0.16.1 core/optimizer/optimizer_config.py store_param_remainders, "
                   "exp_avg_dtype; TransformerEngine pytorch/optimizers/fused_adam.py @d0067d0d"},
        {.name = "deepspeed-bf16",
         .doc = "DeepSpeed bf16: bf16 weights and gradients, fp32 master weights: 2 + 2 + 4 + 8, and an fp32 "
                "copy of the gradients for the step",
         .parameters = &dtype::bf16,
         .master_weights = &dtype::fp32,
         .gradient_copy = &dtype::fp32,
         .source = "DeepSpeed @edaa7221 runtime/zero/stage_1_and_2.py:2350-2382"},
        {.name = "deepspeed-fp16",
         .doc = "DeepSpeed fp16: fp16 weights and gradients, fp32 master weights: 2 + 2 + 4 + 8, and an fp32 "
                "copy of the gradients for the step",
         .parameters = &dtype::fp16,
         .master_weights = &dtype::fp32,
         .gradient_copy = &dtype::fp32,
         .source = "DeepSpeed @edaa7221 runtime/zero/stage_1_and_2.py:2350-2382"},
        {.name = "deepspeed-bf16-fp32-grads",
         .doc = "DeepSpeed bf16 with grad_accum_dtype fp32 (stage 1): a whole flat fp32 gradient buffer for "
                "the run: 2 + 4 + 4 + 8",
         .parameters = &dtype::bf16,
         .gradients = &dtype::fp32,
         .master_weights = &dtype::fp32,
         .gradient_buffer = true,
         .source = "DeepSpeed @edaa7221 runtime/engine.py:1994-1996, runtime/bf16_optimizer.py:154-210"},
        {.name = "fsdp-mixed",
         .doc = "FSDP MixedPrecisionPolicy(param bf16, reduce fp32), as torchtitan sets it: fp32 shards, "
                "gathered and computed in bf16: (4 + 4 + 0 + 8)/d",
         .parameters = &dtype::fp32,
         .gathered = &dtype::bf16,
         .reduced = &dtype::fp32,
         .source = "pytorch 2.13 torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py"},
        {.name = "accelerate-fsdp-bf16",
         .doc = "Hugging Face accelerate, FSDP with mixed_precision=bf16: trainable weights upcast to fp32 "
                "shards, gathered, computed and reduced in bf16: (4 + 4 + 0 + 8)/d",
         .parameters = &dtype::fp32,
         .gathered = &dtype::bf16,
         .reduced = &dtype::bf16,
         .source = "accelerate 1.15.0 utils/fsdp_utils.py (upcast), utils/dataclasses.py (param_dtype and "
                   "reduce_dtype alike)"},
    };
    return Table<Precision>(rows);
}

}  // namespace membudget
