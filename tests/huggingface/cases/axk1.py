"""A.X K1: latent attention, one dense layer, experts in groups."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 12, "q_lora_rank": 8, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "v_head_dim": 7, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = cases(
    "axk1",
    BASE,
    {
        "n_group": 1, "topk_group": 1, "attention_bias": True, "n_shared_experts": 2, "norm_topk_prob": False,
        "routed_scaling_factor": 1.3, "rope_interleave": False, "hidden_act": "gelu", "rms_norm_eps": 1e-3,
        "mlp_layer_types": ["sparse", "dense", "sparse"], "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16,
            "mscale": 0.8, "mscale_all_dim": 1.2,
        },
    },
)  # fmt: skip
