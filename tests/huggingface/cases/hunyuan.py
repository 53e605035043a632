"""Hunyuan dense."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-3, "rope_theta": 300.0, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip
ALPHA = {"rope_type": "dynamic", "factor": 1.0, "alpha": 50.0, "rope_theta": 100.0, "beta_fast": 32, "mscale": 1.0}

CASES = cases(
    "hunyuan_v1_dense",
    BASE,
    {"rope_parameters": ALPHA, "head_dim": 10, "num_key_value_heads": 3, "attention_bias": True, "hidden_act": "gelu"},
    {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 100.0}, "tie_word_embeddings": True},
)
