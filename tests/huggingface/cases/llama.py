"""Llama and its next of kin."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
LONG = {
    "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.3, 2.0], "long_factor": [1.0, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": 16,
}  # fmt: skip
"""Its attention factor follows from the lengths, 64 and 16, or from `factor`."""

CASES = cases(
    "llama",
    BASE,
    {"head_dim": 6, "num_key_value_heads": 1, "rms_norm_eps": 1e-3},
    {"num_key_value_heads": 4, "tie_word_embeddings": True},
    {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
    {"rope_parameters": LLAMA3},
    {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}},
    {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}},
    {"rope_parameters": LONG},
    {"rope_parameters": {**LONG, "factor": 8.0}, "max_position_embeddings": 32},
)
