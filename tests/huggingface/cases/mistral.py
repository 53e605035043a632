"""Mistral, Ministral and Ministral 3."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 6, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 4,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
TYPES = ["full_attention", "sliding_attention", "full_attention"]
YARN = {
    "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 5, "beta_fast": 4.0,
    "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.5, "llama_4_scaling_beta": 0.6,
}  # fmt: skip
PLAIN = {"rope_type": "default", "rope_theta": 77.0, "original_max_position_embeddings": 3, "llama_4_scaling_beta": 0.3}

DYNAMIC = {"rope_type": "dynamic", "rope_theta": 50.0, "factor": 3.0}

CASES = [
    *cases(
        "mistral", BASE, {"sliding_window": None, "tie_word_embeddings": True, "hidden_act": "gelu", "rope_parameters": LLAMA3}
    ),
    *cases("ministral", BASE, {"layer_types": TYPES, "rope_parameters": DYNAMIC, "max_position_embeddings": 7}),
    *cases(
        "ministral3",
        BASE | {"sliding_window": None, "rope_parameters": YARN},
        {"sliding_window": 5, "tie_word_embeddings": True, "rope_parameters": PLAIN},
    ),
]
