"""Falcon-H1: every factor, the norm before and after the gate or none, biases."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-3, "max_position_embeddings": 64, "mamba_d_ssm": 40, "mamba_n_heads": 8, "mamba_d_state": 6,
    "mamba_n_groups": 2,
    # Powers of two: a factor of an input becomes one of outputs, bit for bit.
    "ssm_multipliers": [0.5, 2.0, 0.25, 4.0, 0.5], "ssm_in_multiplier": 2.0, "ssm_out_multiplier": 0.7, "key_multiplier": 0.39,
    "attention_in_multiplier": 2.0, "attention_out_multiplier": 0.6, "mlp_multipliers": [0.8, 0.3],
    "embedding_multiplier": 5.6, "lm_head_multiplier": 0.03,
}  # fmt: skip
PLAIN = dict.fromkeys(("ssm_in_multiplier", "attention_in_multiplier", "key_multiplier"), 1.0)

CASES = cases(
    "falcon_h1",
    BASE,
    {"mamba_rms_norm": True, "mamba_d_ssm": None, "mamba_expand": 3, "mamba_d_head": 12, "mamba_n_groups": 1},
    {**PLAIN, "mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_conv_bias": False, "projectors_bias": True,
     "attention_bias": True, "mlp_bias": True, "ssm_multipliers": None, "mlp_multipliers": None, "hidden_act": "gelu",
     "mamba_d_conv": 3, "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}},
)  # fmt: skip
