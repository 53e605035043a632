"""MiniMax: lightning layers each with slopes of their own, residuals from the norm, factors of both."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_local_experts": 5, "num_experts_per_tok": 2, "max_position_embeddings": 64,
}  # fmt: skip
FACTORS = {
    "linear_attn_alpha_factor": 1.3, "linear_attn_beta_factor": 0.8, "full_attn_alpha_factor": 1.1,
    "full_attn_beta_factor": 0.7, "mlp_alpha_factor": 0.9, "mlp_beta_factor": 1.2,
}  # fmt: skip
ORDER = ["linear_attention", "linear_attention", "full_attention"]

CASES = cases(
    "minimax",
    BASE | {"rms_norm_eps": 1e-3},
    FACTORS | {"head_dim": 6, "num_hidden_layers": 3, "layer_types": ORDER, "hidden_act": "gelu", "sliding_window": 4,
               "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}},
)  # fmt: skip
