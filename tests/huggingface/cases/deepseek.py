"""DeepSeek: latent attention, groups, correction, dense layers first."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7,
    "n_routed_experts": 6, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "max_position_embeddings": 64,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16, "mscale": 0.8,
    "mscale_all_dim": 1.2,
}  # fmt: skip

CASES = [
    *cases(
        "deepseek_v3",
        BASE | {"q_lora_rank": 8, "n_group": 3, "topk_group": 2, "norm_topk_prob": False},
        {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "attention_bias": True, "n_shared_experts": 2,
         "norm_topk_prob": True, "rope_interleave": False, "rope_parameters": YARN, "hidden_act": "gelu"},
    ),
    *cases(
        "deepseek_v2",
        BASE | {"q_lora_rank": 9, "n_shared_experts": 1, "attention_bias": True, "tie_word_embeddings": True},
        {"q_lora_rank": None, "topk_method": "group_limited_greedy", "n_group": 3, "topk_group": 2, "rms_norm_eps": 1e-3,
         "routed_scaling_factor": 1.7, "first_k_dense_replace": 0, "rope_parameters": YARN, "attention_bias": False},
    ),
    *cases(
        "glm4_moe_lite",
        {key: value for key, value in BASE.items() if key != "first_k_dense_replace"}
        | {"q_lora_rank": 9, "mlp_layer_types": ["sparse", "dense", "sparse"], "n_group": 2, "topk_group": 1,
           "routed_scaling_factor": 1.3},
    ),
]  # fmt: skip
