"""Ling 3.0: bounded and unbounded decays, gated latent attention, experts in groups."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7,
    "num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 6, "short_conv_kernel_size": 3, "layer_group_size": 2,
    "first_k_dense_replace": 1, "n_group": 3, "topk_group": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "rms_norm_eps": 1e-3, "kda_lower_bound": -3.0,
}  # fmt: skip
STRETCHED = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}

CASES = cases(
    "bailing_hybrid",
    BASE,
    {"kda_safe_gate": False, "n_shared_experts": 2, "norm_topk_prob": False, "hidden_act": "gelu", "attention_bias": True,
     "routed_scaling_factor": 1.2, "layer_types": ["full_attention", "linear_attention", "full_attention"],
     "mlp_layer_types": ["sparse", "dense", "sparse"], "rope_parameters": STRETCHED, "n_group": 1, "topk_group": 1,
     "kda_lower_bound": -5.0},
)  # fmt: skip
