"""LongCat-Flash: two attentions in a layer, experts beside both, experts that compute nothing."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "num_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 20, "q_lora_rank": 8, "kv_lora_rank": 10,
    "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "head_dim": 4, "v_head_dim": 7, "moe_topk": 3, "n_routed_experts": 4,
    "zero_expert_num": 3, "expert_ffn_hidden_size": 12, "max_position_embeddings": 64,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16, "mscale": 0.8,
    "mscale_all_dim": 1.2,
}  # fmt: skip

CASES = cases(
    "longcat_flash",
    BASE,
    {
        "zero_expert_num": 0, "attention_bias": True, "routed_scaling_factor": 1.7, "rms_norm_eps": 1e-3, "hidden_act": "gelu",
        "tie_word_embeddings": True, "rope_parameters": YARN, "router_bias": True, "num_layers": 1,
    },
)  # fmt: skip
