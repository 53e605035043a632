"""Molmo 2's text model alone: per head and whole norms, before and after, layers with and without stretched positions."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "additional_vocab_size": 5, "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
    "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
OTHER = {
    "qk_norm_type": "olmo", "norm_after": True, "attention_bias": True, "rope_scaling_layers": [0, 2],
    "rope_parameters": {"rope_type": "linear", "rope_theta": 300.0, "factor": 3.0}, "num_key_value_heads": 4,
}  # fmt: skip

CASES = cases("molmo2_text", BASE, OTHER, task="Model")
