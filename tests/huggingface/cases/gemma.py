"""Gemma 1, 2 and 3, VaultGemma, and Gemma 3 looking both ways."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
}  # fmt: skip
THETA = {"rope_type": "default", "rope_theta": 300.0}
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "attention_factor": 1.3}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 40.0, "factor": 2.0}
TWO = BASE | {"sliding_window": 4, "query_pre_attn_scalar": 11, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 4.0}
OTHER = {
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "hidden_activation": "silu",
    "attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True, "tie_word_embeddings": False,
    "rope_parameters": LINEAR,
}  # fmt: skip
THREE = BASE | {"sliding_window": 4, "query_pre_attn_scalar": 11, "attn_logit_softcapping": 0.5}
BY_TYPE = {
    "sliding_window_pattern": 3, "final_logit_softcapping": 2.0, "num_key_value_heads": 1,
    "rope_parameters": {"full_attention": LINEAR, "sliding_attention": THETA},
}  # fmt: skip
SCALED = {
    "layer_types": ["full_attention", "sliding_attention", "full_attention"], "hidden_activation": "silu",
    "attention_bias": True, "tie_word_embeddings": False, "max_position_embeddings": 7,
    "rope_parameters": {"full_attention": DYNAMIC, "sliding_attention": YARN},
}  # fmt: skip

CASES = [
    *cases(
        "gemma",
        BASE | {"hidden_act": "gelu"},
        {"hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": True, "rope_parameters": LINEAR},
    ),
    *cases("gemma2", TWO, OTHER),
    *cases("vaultgemma", TWO | {"attention_bias": True, "rope_parameters": YARN}, OTHER | {"attention_bias": False}),
    *cases("gemma3_text", THREE | BY_TYPE, SCALED),
    *cases("gemma3_text", THREE | BY_TYPE | {"use_bidirectional_attention": True, "sliding_window": 5}, task="Model"),
]
