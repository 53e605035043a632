"""Bamba: attention in some layers, Mamba-2 in the others."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "attn_layer_indices": [1], "rms_norm_eps": 1e-3, "max_position_embeddings": 64, "mamba_n_heads": 8, "mamba_d_head": 8,
    "mamba_d_state": 6, "mamba_n_groups": 2,
}  # fmt: skip

CASES = cases(
    "bamba",
    BASE,
    {"attn_layer_indices": [0, 2], "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_expand": 3, "mamba_d_conv": 3,
     "mamba_conv_bias": False, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu",
     "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0, "partial_rotary_factor": 0.25}},
)  # fmt: skip
