"""Mellum."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "head_dim": 8, "num_experts": 5, "num_experts_per_tok": 3,
    "moe_intermediate_size": 12,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}

CASES = cases(
    "mellum",
    BASE,
    {
        "num_hidden_layers": 4, "num_key_value_heads": 3, "attention_bias": True, "norm_topk_prob": False, "sliding_window": 5,
        "layer_types": ["full_attention", "sliding_attention"] * 2, "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
        "tie_word_embeddings": True, "hidden_act": "gelu", "attention_dropout": 0.2,
        "rope_parameters": {
            "full_attention": YARN,
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    },
)  # fmt: skip
