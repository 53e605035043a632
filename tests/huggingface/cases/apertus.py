"""Apertus."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "pad_token_id": 0,
}  # fmt: skip

CASES = cases(
    "apertus",
    BASE,
    {
        "attention_bias": True, "num_key_value_heads": 3, "head_dim": 10, "tie_word_embeddings": True, "attention_dropout": 0.2,
        "hidden_act": "gelu", "rope_parameters": {"rope_type": "default", "rope_theta": 70.0},
    },
)  # fmt: skip
