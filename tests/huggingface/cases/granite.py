"""Granite, Granite-SWA and HyperCLOVA X."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "embedding_multiplier": 3.0, "logits_scaling": 49.0,
    "residual_multiplier": 0.22, "attention_multiplier": 0.7, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "attention_factor": 1.3}
OTHER = {
    "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "num_key_value_heads": None, "hidden_act": "gelu",
    "rope_parameters": YARN,
}  # fmt: skip
WINDOWS = {"sliding_window": 4, "num_hidden_layers": 5, "tie_word_embeddings": False}
THETAS = {"layer_types": ["sliding_attention", "full_attention"] * 2, "layer_rope_theta": [100.0, 0, 30.0, 500.0]}

CASES = [
    *cases("granite", BASE, OTHER | {"head_dim": 6}),
    *cases("granite_swa", BASE | WINDOWS | {"rope_parameters": LINEAR},
           OTHER | THETAS | {"num_hidden_layers": 4, "num_key_value_heads": 1, "head_dim": 6},
           {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}),
    *cases("hyperclovax", BASE | {"logits_scaling": 0.3, "head_dim": 6}, OTHER | {"use_post_norm": False},
           {"attention_multiplier": None}),
]  # fmt: skip
