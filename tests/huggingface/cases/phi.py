"""Phi."""

from __future__ import annotations

from huggingface.case import cases

PHI = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "layer_norm_eps": 1e-3, "rope_theta": 300.0, "partial_rotary_factor": 0.75,
}  # fmt: skip
PHI3 = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip
DIVISORS = {"short_factor": [1.1, 1.3, 2.0], "long_factor": [1.5, 3.0, 5.0]}

CASES = [
    *cases(
        "phi",
        PHI,
        {
            "qk_layernorm": True, "tie_word_embeddings": True, "hidden_act": "relu", "num_key_value_heads": 3,
            "partial_rotary_factor": 0.5, "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attention_dropout": 0.3,
        },
    ),
    *cases(
        "phi3",
        PHI3,
        {
            "rope_parameters": {"rope_type": "longrope", "partial_rotary_factor": 0.75, **DIVISORS}, "sliding_window": 5,
            "original_max_position_embeddings": 8, "tie_word_embeddings": True, "resid_pdrop": 0.1,
        },
        {
            "rope_scaling": {"type": "su", "original_max_position_embeddings": 9, **DIVISORS},
            "original_max_position_embeddings": 16, "num_key_value_heads": 3,
            "partial_rotary_factor": 0.75, "hidden_act": "gelu", "attention_dropout": 0.3, "sliding_window": 13,
        },
    ),
]  # fmt: skip
