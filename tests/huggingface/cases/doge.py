"""Doge: plain, and with biases and groups of heads."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "keep_window_size": 64, "rms_norm_eps": 1e-3,
}  # fmt: skip
OTHER = {
    "num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu",
    "attention_dropout": 0.1, "hidden_dropout": 0.2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
CASES = cases("doge", BASE, OTHER)
