"""Gemma 4's text models."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 4, "hidden_size_per_layer_input": 0,
    "global_head_dim": 12, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "final_logit_softcapping": 2.0,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "vocab_size_per_layer_input": 53,
}  # fmt: skip
TABLES = {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 90.0, "factor": 2.0},
    "sliding_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 70.0},
}
EXPERTS = {
    "enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 12, "attention_bias": True,
    "tie_word_embeddings": False, "rope_parameters": TABLES, "final_logit_softcapping": None, "layer_types": None,
}  # fmt: skip
SHARED = {
    "num_hidden_layers": 6, "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "attention_k_eq_v": False,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "hidden_activation": "silu",
    "num_global_key_value_heads": 4,
}  # fmt: skip

UNIFIED = {key: value for key, value in BASE.items() if "per_layer" not in key}

INPUTS = {"hidden_size_per_layer_input": 10, "vocab_size_per_layer_input": 53}
E2B = {"num_hidden_layers": 6, "num_kv_shared_layers": 2, "attention_k_eq_v": False, "use_double_wide_mlp": True}

CASES = [
    *cases(
        "gemma4_unified_text",
        UNIFIED,
        {
            "attention_bias": True,
            "attention_k_eq_v": False,
            "rope_parameters": TABLES,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
            "num_global_key_value_heads": None,
        },
    ),
    *cases("gemma4_text", BASE, EXPERTS, {"use_bidirectional_attention": "all", "sliding_window": 7}),
    *cases(
        "gemma4_text",
        BASE | INPUTS,
        E2B | {"layer_types": ["sliding_attention", "full_attention"] * 3, "num_global_key_value_heads": None},
        EXPERTS | {"vocab_size_per_layer_input": 61},
        {"use_bidirectional_attention": "all", "sliding_window": 7},
        gradients=5e-4,
        why="layers that read the keys of others add up their gradients: 1.8e-4 in fp32 on a Xeon, 1.4e-5 in double precision",
    ),
    # Without this, transformers cuts per-layer inputs where keys are shared, and fails where there are none.
    *cases("gemma4_text", BASE | SHARED, calls={"output_hidden_states": True}),
]
