"""Cases of decoders with experts: small configs of many classes, in each precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vision_language import CPU_OPTIMIZER

Config = dict[str, Any]

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LAYERS = 3
HIDDEN, HEADS, KV_HEADS, HEAD, VOCABULARY = 256, 4, 2, 48, 1000
WINDOW = 32
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
DENSE_FIRST = ["dense", "sparse", "sparse"]


def base(**more: Any) -> Config:
    """Sizes that all classes name alike."""
    return {
        "hidden_size": HIDDEN,
        "intermediate_size": 352,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **more,
    }


def heads(**more: Any) -> Config:
    """With heads that do not make up the hidden size."""
    return base(head_dim=HEAD, **more)


def routed(**more: Any) -> Config:
    """Experts as DeepSeek names them, one of them shared."""
    experts = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 176, "n_shared_experts": 1}
    return heads(**(experts | more))


def glm4_moe() -> Config:
    """Half of each head is rotated; queries and keys are normalised."""
    return routed(use_qk_norm=True, attention_bias=True, first_k_dense_replace=1)


def solar_open() -> Config:
    """Every layer has experts."""
    config = routed()
    del config["intermediate_size"]
    return config


def exaone_moe() -> Config:
    """Only layers with a window rotate."""
    config = heads(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=176, num_shared_experts=1)
    return config | {"sliding_window": WINDOW, "layer_types": ALTERNATING, "mlp_layer_types": DENSE_FIRST}


def mellum() -> Config:
    """Two kinds of layers, each with a rotation of its own."""
    config = heads(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=176, sliding_window=WINDOW)
    rope = {kind: PLAIN for kind in ("full_attention", "sliding_attention")}
    return config | {"layer_types": ALTERNATING, "mlp_layer_types": DENSE_FIRST, "rope_parameters": rope}


def glm4_moe_lite() -> Config:
    """Latent attention."""
    config = routed(num_key_value_heads=HEADS, mlp_layer_types=DENSE_FIRST)
    del config["head_dim"]
    latent = {"q_lora_rank": 128, "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64}
    return config | latent


def hy_v3() -> Config:
    """The shared expert and the others are added in fp32."""
    config = heads(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=176, num_shared_experts=1)
    return config | {"mlp_layer_types": DENSE_FIRST}


def cohere2_moe() -> Config:
    """Attention and experts in parallel; a mean of shared and chosen experts."""
    config = heads(num_experts=8, num_experts_per_tok=2, num_shared_experts=1, prefix_dense_intermediate_size=512)
    return config | {"sliding_window": WINDOW, "layer_types": ALTERNATING, "mlp_layer_types": DENSE_FIRST}


def afmoe() -> Config:
    """Attention with a gate, and four norms."""
    config = heads(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=176, num_shared_experts=1)
    return config | {"sliding_window": WINDOW, "layer_types": ALTERNATING, "num_dense_layers": 1, "mup_enabled": True}


def minimax_m2() -> Config:
    """Queries and keys normalised over all heads, half of each rotated."""
    rope = PLAIN | {"partial_rotary_factor": 0.5}
    return heads(num_local_experts=8, num_experts_per_tok=2, intermediate_size=176, rope_parameters=rope)


def llama4() -> Config:
    """Every expert runs over all tokens; chunks of the sequence, and layers that do not rotate."""
    layers = {"no_rope_layers": [1, 0, 1], "moe_layers": [1, 2], "attention_chunk_size": 64}
    return heads(num_local_experts=4, num_experts_per_tok=1, intermediate_size_mlp=512, rope_parameters=PLAIN) | layers


def mimo_v2_flash() -> Config:
    """Values narrower than keys, and a learned score in layers with a window."""
    rope = {kind: PLAIN | {"partial_rotary_factor": 0.5} for kind in ("full_attention", "sliding_attention")}
    config = routed(n_shared_experts=None, v_head_dim=32, sliding_window=WINDOW, rope_parameters=rope)
    return config | {"layer_types": ALTERNATING, "mlp_layer_types": DENSE_FIRST}


def ernie4_5_moe() -> Config:
    """Softmax in fp32 with a correction that the class freezes; the shared experts run first."""
    config = heads(moe_num_experts=8, moe_k=2, moe_intermediate_size=176, moe_num_shared_experts=1, use_bias=True)
    return config | {"moe_layer_start_index": 1, "rope_parameters": PLAIN}


def dots1() -> Config:
    """DeepSeek's experts with heads of its own; windows in the last layers."""
    config = routed(first_k_dense_replace=1, norm_topk_prob=True, attention_bias=True)
    return config | {"sliding_window": WINDOW, "max_window_layers": 2}


def dbrx() -> Config:
    """Clipped queries, keys and values; one expert after the other, each of which gets every token.

    How uneven a router is would show in the transients of its busiest expert.
    """
    attention = {"kv_n_heads": KV_HEADS, "clip_qkv": 8.0, "rope_theta": 10000.0, "attn_pdrop": 0.1}
    experts = {"ffn_hidden_size": 176, "moe_num_experts": 4, "moe_top_k": 4, "moe_jitter_eps": 0.01}
    sizes = {"d_model": HIDDEN, "n_heads": HEADS, "n_layers": LAYERS, "vocab_size": VOCABULARY, "max_seq_len": 512}
    return sizes | {"attn_config": attention, "ffn_config": experts, "resid_pdrop": 0.1}


def indexed() -> Config:
    """Latent attention under the mask of an indexer, which chooses half of the keys."""
    latent = {"q_lora_rank": 128, "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64}
    config = routed(num_key_value_heads=HEADS, mlp_layer_types=DENSE_FIRST) | latent
    return config | {"index_n_heads": 2, "index_head_dim": 48, "index_topk": 96, "rope_parameters": PLAIN, "n_group": 1, "topk_group": 1}


def shared_choice() -> Config:
    """The same, where two of four layers use the choice of an earlier one."""
    layers = {"num_hidden_layers": 4, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}
    return indexed() | layers | {"indexer_types": ["full", "shared", "shared", "full"]}


def deepseek_v4() -> Config:
    """Several residual streams; a window, keys that an indexer chooses, keys of many tokens; experts by a hash."""
    latent = {"q_lora_rank": 128, "o_groups": 2, "o_lora_rank": 64, "qk_rope_head_dim": 16}
    index = {"index_n_heads": 2, "index_head_dim": 32, "index_topk": 8, "sliding_window": WINDOW}
    words = ["sliding", "compressed_sparse", "heavily_compressed"]
    config = base(head_dim=64, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=176)
    del config["intermediate_size"], config["num_key_value_heads"]
    layers = {"layer_types": [f"{word}_attention" for word in words], "mlp_layer_types": ["hash_moe", "moe", "moe"]}
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 32}
    return config | latent | index | layers | {"compress_rates": rates, "hc_sinkhorn_iters": 4}


def minimax_m3() -> Config:
    """Blocks of keys that an indexer chooses in two of three layers, and clamped gates."""
    index = {"index_n_heads": KV_HEADS, "index_head_dim": 32, "index_block_size": 16, "index_topk_blocks": 4}
    config = heads(num_local_experts=8, num_experts_per_tok=2, intermediate_size=176, dense_intermediate_size=512)
    layers = {"layer_types": ["full_attention", *["minimax_m3_sparse"] * 2], "mlp_layer_types": DENSE_FIRST}
    rope = PLAIN | {"partial_rotary_factor": 0.5}
    return config | index | layers | {"shared_intermediate_size": 208, "rope_parameters": rope}


def step3p7() -> Config:
    """More heads in layers with a window, a gate for each head, and every expert for each token, as for DBRX."""
    config = heads(n_routed_experts=4, num_experts_per_tok=4, moe_intermediate_size=176, share_expert_dim=208)
    rope = {"full_attention": PLAIN | {"partial_rotary_factor": 0.5}, "sliding_attention": PLAIN}
    layers = {"layer_types": ["full_attention", *["sliding_attention"] * 2], "mlp_layer_types": DENSE_FIRST}
    return config | layers | {"num_sliding_attention_heads": 6, "sliding_window": WINDOW, "rope_parameters": rope}


def gemma4() -> Config:
    """Wider heads without a window, whose keys are values too; without inputs of each layer."""
    config = base(head_dim=48, global_head_dim=64, num_global_key_value_heads=1, attention_k_eq_v=True)
    config |= {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
    return config | {"hidden_size_per_layer_input": 0, "final_logit_softcapping": 30.0}


def gemma4_moe() -> Config:
    """Experts beside the feed-forward network."""
    return gemma4() | {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 176}


def gemma4_small() -> Config:
    """Inputs of each layer, and three last layers that use keys and values of earlier ones in wider networks."""
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    shares = {"num_hidden_layers": 5, "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "layer_types": kinds}
    inputs = {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": VOCABULARY}
    return base(head_dim=48, global_head_dim=64, sliding_window=WINDOW) | shares | inputs


def gemma3n_small() -> Config:
    """Four streams, sparse layers, inputs of each layer, and keys and values that later layers share."""
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    shares = {"num_hidden_layers": 5, "num_kv_shared_layers": 3, "layer_types": kinds}
    inputs = {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": VOCABULARY}
    streams = {"altup_num_inputs": 4, "laurel_rank": 16, "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0]}
    return base(head_dim=48, sliding_window=WINDOW) | shares | inputs | streams


CLASSES: dict[str, tuple[str, Callable[[], Config]]] = {
    "glm4-moe": ("Glm4MoeForCausalLM", glm4_moe),
    "solar-open": ("SolarOpenForCausalLM", solar_open),
    "glm4-moe-lite": ("Glm4MoeLiteForCausalLM", glm4_moe_lite),
    "mellum": ("MellumForCausalLM", mellum),
    "flex-olmo": ("FlexOlmoForCausalLM", lambda: base(num_experts=8, num_experts_per_tok=2)),
    "granite-moe-shared": (
        "GraniteMoeSharedForCausalLM",
        lambda: base(num_local_experts=8, num_experts_per_tok=2, shared_intermediate_size=416),
    ),
    "exaone-moe": ("ExaoneMoeForCausalLM", exaone_moe),
    "hy-v3": ("HYV3ForCausalLM", hy_v3),
    "minimax-m2": ("MiniMaxM2ForCausalLM", minimax_m2),
    "cohere2-moe": ("Cohere2MoeForCausalLM", cohere2_moe),
    "afmoe": ("AfmoeForCausalLM", afmoe),
    "llama4": ("Llama4ForCausalLM", llama4),
    "mimo-v2-flash": ("MiMoV2FlashForCausalLM", mimo_v2_flash),
    "phimoe": ("PhimoeForCausalLM", lambda: base(num_local_experts=8, rope_parameters=PLAIN, input_jitter_noise=0.01)),
    "hunyuan-moe": ("HunYuanMoEV1ForCausalLM", lambda: heads(num_experts=8, moe_topk=2)),
    "ernie4-5-moe": ("Ernie4_5_MoeForCausalLM", ernie4_5_moe),
    "dots1": ("Dots1ForCausalLM", dots1),
    "dbrx": ("DbrxForCausalLM", dbrx),
    "deepseek-v32": ("DeepseekV32ForCausalLM", indexed),
    "glm-moe-dsa": ("GlmMoeDsaForCausalLM", indexed),
    "glm-moe-dsa-shared": ("GlmMoeDsaForCausalLM", shared_choice),
    "deepseek-v4": ("DeepseekV4ForCausalLM", deepseek_v4),
    "minimax-m3": ("MiniMaxM3VLForCausalLM", minimax_m3),
    "gemma4": ("Gemma4ForCausalLM", gemma4),
    "gemma4-moe": ("Gemma4ForCausalLM", gemma4_moe),
    "gemma4-small": ("Gemma4ForCausalLM", gemma4_small),
    "gemma3n-small": ("Gemma3nForCausalLM", gemma3n_small),
    "olmoe-clip": ("OlmoeForCausalLM", lambda: base(num_experts=8, num_experts_per_tok=2, clip_qkv=8.0)),
}

COMMON: dict[str, Any] = {
    "param_dtype": "float32",
    "attn_implementation": "sdpa",
    "optimizer": CPU_OPTIMIZER,
    "keep_outputs": False,
}
FORMS: list[dict[str, Any]] = [
    {"batch": 2, "seq": 192},
    {"batch": 3, "seq": 128, "autocast": "bfloat16", "attn_implementation": "eager", "keep_outputs": True},
    {"batch": 2, "seq": 192, "param_dtype": "bfloat16", "checkpointing": "non_reentrant"},
    {
        "batch": 1,
        "seq": 256,
        "param_dtype": "bfloat16",
        "keep_outputs": True,
        "lora": {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "o_proj"]},
    },
]


# The choice of an indexer goes from layer to layer, keys and values into a dictionary: checkpoints keep both in their
# own ways.
REENTRANT = {"batch": 3, "seq": 128, "checkpointing": "reentrant", "autocast": "bfloat16", "keep_outputs": True}
LAZY = {"batch": 1, "seq": 192, "checkpointing": "non_reentrant", "attn_implementation": "eager", "accumulation": 2}
BETWEEN_LAYERS: dict[str, list[dict[str, Any]]] = {
    "glm-moe-dsa": [REENTRANT, LAZY],
    "glm-moe-dsa-shared": [REENTRANT, LAZY],
    "gemma4-moe": [LAZY],
    "minimax-m3": [REENTRANT, {"batch": 2, "seq": 91, "padding_mask": True, "accumulation": 2}, LAZY],
    "deepseek-v4": [
        REENTRANT,
        {"batch": 2, "seq": 91, "padding_mask": True, "accumulation": 2},
        {"batch": 1, "seq": 128},
        # Shorter than the longest windows, which then have no entries.
        {"batch": 2, "seq": 24, "keep_outputs": True},
        {"batch": 3, "seq": 20, "checkpointing": "non_reentrant", "autocast": "bfloat16", "accumulation": 2},
    ],
    "gemma4-small": [REENTRANT, LAZY],
    "gemma3n-small": [REENTRANT, LAZY],
}


def experts(count: int, **more: Any) -> Config:
    """Experts as Mixtral and Qwen name them."""
    names = {"num_local_experts": count, "num_experts": count, "num_experts_per_tok": 4}
    return base(**names, moe_intermediate_size=176, output_router_logits=True, **more)


# Classes whose routers' logits join the loss, with as many experts as make that weigh.
WITH_LOSS: dict[str, tuple[str, Config]] = {
    "mixtral": ("MixtralForCausalLM", {}),
    "qwen2-moe": ("Qwen2MoeForCausalLM", {"shared_expert_intermediate_size": 176}),
    "qwen3-moe": ("Qwen3MoeForCausalLM", {}),
    "olmoe": ("OlmoeForCausalLM", {}),
    "granite-moe": ("GraniteMoeForCausalLM", {}),
    "minimax-m2": ("MiniMaxM2ForCausalLM", {}),
}


def router_losses() -> list[dict[str, Any]]:
    """The auxiliary loss of routers, in three of the forms."""
    cases = []
    for name, (model, more) in WITH_LOSS.items():
        for number in range(3):
            sizes = {"intermediate_size": 96} | more
            config = base() | experts(32) | sizes
            case = {"architecture": name, "model": model, "config": config}
            cases.append({"name": f"router-loss-{name}-{number}", **case, "training": COMMON | FORMS[number]})
    return cases


def mixtures() -> list[dict[str, Any]]:
    """Every class in every form, and the loss of routers."""
    cases = []
    for name, (model, config) in CLASSES.items():
        for number, training in enumerate(FORMS + BETWEEN_LAYERS.get(name, [])):
            # Made from its config, and so in these forms alone, the class keeps the router's weight in fp32.
            if name == "hunyuan-moe" and number > 1:
                continue
            training = COMMON | training
            if name in ("mimo-v2-flash", "deepseek-v4"):  # there is no other
                training["attn_implementation"] = "eager"
            # The class fails under autocast on the CPU: its experts are added to a sum of another type.
            if name == "dbrx" and "autocast" in training:
                continue
            if "lora" in training and name == "dbrx":
                training["lora"] = training["lora"] | {"target_modules": ["Wqkv", "out_proj"]}
            if "lora" in training and name == "deepseek-v4":
                training["lora"] = training["lora"] | {"target_modules": ["q_a_proj", "o_b_proj"]}
            if "lora" in training and name in ("glm4-moe-lite", "deepseek-v32", "glm-moe-dsa", "glm-moe-dsa-shared"):
                training["lora"] = training["lora"] | {"target_modules": ["q_b_proj", "o_proj"]}
            case = {"architecture": name, "model": model, "config": config()}
            cases.append({"name": f"{name}-{number}", **case, "training": training})
    return cases + router_losses()
