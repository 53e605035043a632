"""Gemma 3n's text model."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 4, "hidden_size_per_layer_input": 10,
    "vocab_size_per_layer_input": 53, "num_kv_shared_layers": 0, "laurel_rank": 5, "final_logit_softcapping": 2.0,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "activation_sparsity_pattern": [0.6, 0.6, 0.0, 0.0],
}  # fmt: skip
SHARED = {
    "num_hidden_layers": 6, "num_kv_shared_layers": 3, "altup_num_inputs": 3, "attention_bias": True,
    "tie_word_embeddings": False,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "hidden_activation": "silu",
    "activation_sparsity_pattern": None,
}  # fmt: skip
LISTED = {
    "intermediate_size": [40, 40, 24, 40], "activation_sparsity_pattern": [0.5, 0.8, 0.0, 0.8],
    "vocab_size_per_layer_input": 31, "final_logit_softcapping": 30.0, "pad_token_id": None,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
    },
}  # fmt: skip

USUAL = {
    "num_hidden_layers": 11, "layer_types": None, "activation_sparsity_pattern": None, "altup_num_inputs": 2,
    "rms_norm_eps": 0.05,
}  # fmt: skip
"""Which layers slide and which are sparse is left to the class."""

CASES = cases(
    "gemma3n_text",
    BASE,
    SHARED,
    LISTED,
    USUAL,
)
