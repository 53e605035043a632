"""Kimi Linear: two mixers, two networks, in orders that do not fall together."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7,
    "num_local_experts": 6, "num_experts_per_tok": 2, "linear_head_dim": 6, "linear_num_heads": 3, "linear_conv_kernel_dim": 3,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
    "mlp_layer_types": ["dense", "sparse", "sparse", "dense"], "rms_norm_eps": 1e-3,
}  # fmt: skip

CASES = cases(
    "kimi_linear",
    BASE,
    {"q_lora_rank": 9, "n_group": 3, "topk_group": 2, "n_shared_experts": 2, "norm_topk_prob": False, "hidden_act": "gelu",
     "attention_bias": True, "routed_scaling_factor": 1.2, "layer_types": None, "mlp_layer_types": None,
     "num_hidden_layers": 5},
)  # fmt: skip
