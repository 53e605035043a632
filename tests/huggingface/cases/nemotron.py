"""Nemotron, Jais 2, Arcee."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip
VARIANT = {
    "attention_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu", "head_dim": 12, "attention_dropout": 0.3,
    "num_key_value_heads": 3, "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0},
}  # fmt: skip

CASES = [
    *cases(
        "nemotron",
        BASE | {"norm_eps": 1e-3, "mlp_bias": True},
        {**VARIANT, "rope_parameters": {"rope_type": "default", "rope_theta": 70.0, "partial_rotary_factor": 0.67}},
    ),
    *cases("jais2", BASE | {"layer_norm_eps": 1e-3, "mlp_bias": False}, {**VARIANT, "attention_bias": False, "mlp_bias": True}),
    *cases("arcee", BASE | {"rms_norm_eps": 1e-3, "mlp_bias": True}, VARIANT),
]
