"""Jamba: attention and experts in every few layers, norms inside Mamba."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 20, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 3, "expert_layer_offset": 0, "num_experts": 5,
    "num_experts_per_tok": 3, "rms_norm_eps": 1e-3, "max_position_embeddings": 64, "mamba_d_state": 5, "mamba_dt_rank": 3,
}  # fmt: skip

CASES = cases(
    "jamba",
    BASE,
    {"num_experts": 1, "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_dt_rank": "auto", "mamba_d_conv": 3,
     "mamba_expand": 3, "mamba_conv_bias": False, "hidden_act": "gelu", "tie_word_embeddings": True},
)  # fmt: skip
