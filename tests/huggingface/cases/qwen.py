"""Qwen 2 and 3."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
WINDOWS = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
YARN = {
    "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "truncate": False,
    "attention_factor": 1.3,
}  # fmt: skip

CASES = [
    *cases("qwen2", BASE | {"sliding_window": 4}, WINDOWS | {"tie_word_embeddings": True, "head_dim": 6},
           WINDOWS | {"layer_types": TYPES, "rope_parameters": YARN, "num_attention_heads": 2, "hidden_act": "gelu"}),
    *cases("qwen3", BASE | {"head_dim": 6, "num_key_value_heads": 1, "attention_bias": True},
           WINDOWS | {"tie_word_embeddings": True, "rope_parameters": YARN | {"truncate": True}}),
]  # fmt: skip
