"""Helium and ERNIE 4.5."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}

CASES = [
    *cases(
        "helium",
        BASE | {"head_dim": 8},
        {
            "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu",
            "num_key_value_heads": 3, "attention_dropout": 0.3, "rope_parameters": YARN,
        },
    ),
    *cases(
        "ernie4_5",
        BASE | {"head_dim": 6},
        {"use_bias": True, "tie_word_embeddings": False, "hidden_act": "gelu", "head_dim": None, "rope_parameters": YARN},
    ),
]  # fmt: skip
