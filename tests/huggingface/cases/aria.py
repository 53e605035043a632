"""Aria's text model."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "moe_num_experts": 5, "moe_topk": 2, "moe_num_shared_experts": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
    "pad_token_id": 0,
}  # fmt: skip
OTHER = {
    "attention_bias": True, "tie_word_embeddings": True, "moe_num_shared_experts": 2, "head_dim": 6, "attention_dropout": 0.1,
    "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0},
}  # fmt: skip

CASES = [*cases("aria_text", BASE, OTHER)]
