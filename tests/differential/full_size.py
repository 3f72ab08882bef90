"""Published models at their full size, for tensors without data (FakeTensorMode)."""

from __future__ import annotations

from typing import Any

COMMON: dict[str, Any] = {
    "attn_implementation": "sdpa",
    "keep_outputs": False,
    "optimizer": {"name": "AdamW", "implementation": "fused", "options": {"lr": 0.001}},
    "param_dtype": "bfloat16",
}

# architecture: class, what its config.json says, training. Dropout as published, but for classes whose CPU
# attention has another kernel with it.
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "llama-3.1-8b": (
        "llama",
        "LlamaForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072},
        {"batch": 1, "seq": 4096},
    ),
    "llama-3.1-8b-checkpointed": (
        "llama",
        "LlamaForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072},
        {"batch": 2, "seq": 8192, "checkpointing": "non_reentrant"},
    ),
    "qwen3-8b": (
        "qwen3",
        "Qwen3ForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960},
        {"batch": 1, "seq": 4096, "param_dtype": "float32", "autocast": "bfloat16"},
    ),
    "gpt2": (
        "gpt2",
        "GPT2LMHeadModel",
        {"attn_pdrop": 0.0, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
        {"batch": 8, "seq": 1024, "param_dtype": "float32"},
    ),
    "bert-large": (
        "bert",
        "BertForMaskedLM",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
         "vocab_size": 30522, "attention_probs_dropout_prob": 0.0},
        {"batch": 16, "seq": 512, "param_dtype": "float32"},
    ),
    "t5-large": (
        "t5",
        "T5ForConditionalGeneration",
        {"d_model": 1024, "d_ff": 4096, "d_kv": 64, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 16,
         "vocab_size": 32128, "decoder_start_token_id": 0, "pad_token_id": 0},
        {"batch": 4, "seq": 512, "param_dtype": "float32", "attn_implementation": "eager"},
    ),
    "vit-h-14": (
        "vit",
        "ViTForImageClassification",
        {"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16, "intermediate_size": 5120,
         "image_size": 224, "patch_size": 14, "num_labels": 1000},
        {"batch": 16, "param_dtype": "float32"},
    ),
    "deepseek-v2-lite": (
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        {"hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27,
         "num_attention_heads": 16, "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2,
         "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None,
         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 1, "topk_group": 1,
         "vocab_size": 102400},
        {"batch": 1, "seq": 2048},
    ),
    "mixtral-8x7b": (
        "mixtral",
        "MixtralForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
         "sliding_window": None},
        {"batch": 1, "seq": 4096},
    ),
}


def full_size() -> list[dict[str, Any]]:
    """A case for each kind of network that is published."""
    cases = []
    for name, (architecture, model, config, training) in MODELS.items():
        case = {
            "name": f"full-{name}",
            "architecture": architecture,
            "model": model,
            "config": config,
            "training": COMMON | training,
        }
        if "image_size" in config:
            size, batch = config["image_size"], training["batch"]
            case["inputs"] = {
                "labels": {"high": config["num_labels"], "shape": [batch]},
                "pixel_values": {"shape": [batch, 3, size, size]},
            }
        cases.append(case)
    return cases
