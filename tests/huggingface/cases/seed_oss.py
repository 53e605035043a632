"""Llama under other names."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 100.0}

CASES = [
    *cases(
        "seed_oss",
        BASE | {"head_dim": 10},
        {
            "attention_bias": False, "attention_out_bias": True, "mlp_bias": True, "residual_dropout": 0.0, "head_dim": None,
            "attention_dropout": 0.2, "tie_word_embeddings": True, "hidden_act": "gelu", "rope_parameters": LLAMA3,
        },
    ),
    *cases(
        "internlm3",
        BASE | {"head_dim": 10},
        {
            "attention_bias": True, "mlp_bias": True, "head_dim": None, "tie_word_embeddings": True, "attention_dropout": 0.2,
            "rope_scaling": DYNAMIC,
        },
    ),
    *cases(
        "iquestcoder",
        BASE | {"head_dim": 10, "mlp_bias": True},
        {"attention_bias": True, "mlp_bias": False, "head_dim": None, "tie_word_embeddings": True, "rope_parameters": LLAMA3},
    ),
    *cases(
        "cwm",
        BASE | {"num_hidden_layers": 5, "head_dim": 10, "sliding_window": 4},
        {
            "layer_types": ["full_attention"] * 5, "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu",
            "rope_parameters": {**LLAMA3, "rope_theta": 50.0},
        },
    ),
]  # fmt: skip
