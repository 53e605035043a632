"""DiffLlama."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip

CASES = cases(
    "diffllama",
    BASE,
    {
        "attention_bias": True, "num_key_value_heads": 4, "head_dim": 10, "tie_word_embeddings": True, "hidden_act": "gelu",
        "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0},
    },
)  # fmt: skip
