"""Granite 4: Mamba-2 and attention, rotary or without positions; experts beside a shared one, or the shared one alone."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"], "rms_norm_eps": 1e-3,
    "max_position_embeddings": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 6, "mamba_n_groups": 2,
    "num_local_experts": 5, "num_experts_per_tok": 2, "shared_intermediate_size": 24, "embedding_multiplier": 3.0,
    "attention_multiplier": 0.3, "residual_multiplier": 0.4, "logits_scaling": 2.0,
}  # fmt: skip

CASES = cases(
    "granitemoehybrid",
    BASE,
    {"num_local_experts": 0, "position_embedding_type": "rope", "mamba_n_groups": 1, "mamba_expand": 3, "mamba_d_head": 12,
     "mamba_d_conv": 3, "mamba_conv_bias": False, "attention_bias": True, "tie_word_embeddings": True},
)  # fmt: skip
