"""Persimmon."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 64, "layer_norm_eps": 1e-3, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip

CASES = cases(
    "persimmon",
    BASE,
    {
        "qk_layernorm": False, "tie_word_embeddings": True, "hidden_act": "gelu", "hidden_dropout": 0.1,
        "attention_dropout": 0.2,
        "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0, "partial_rotary_factor": 0.75},
    },
)  # fmt: skip
