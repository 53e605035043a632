"""EXAONE 4."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 6, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 4, "sliding_window_pattern": 3,
    "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FULL = {"layer_types": ["full_attention"] * 4}
MIXED = {"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window_pattern": "GL"}

CASES = cases(
    "exaone4",
    BASE,
    FULL | {"sliding_window": None, "tie_word_embeddings": True, "hidden_act": "gelu", "rope_parameters": LLAMA3},
    MIXED | {"num_key_value_heads": 3},
)
