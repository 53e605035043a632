"""Mistral 4: with YaRN and a temperature that the text reaches, groups of experts and dense layers."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "moe_intermediate_size": 12, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 4, "n_routed_experts": 8, "n_shared_experts": 1, "routed_scaling_factor": 1.7, "kv_lora_rank": 12,
    "q_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6, "n_group": 4, "topk_group": 2,
    "num_experts_per_tok": 3, "first_k_dense_replace": 1, "rms_norm_eps": 1e-3, "max_position_embeddings": 64,
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0, "original_max_position_embeddings": 4, "beta_fast": 4.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.8, "llama_4_scaling_beta": 0.5,
    },
}  # fmt: skip
ROPE = {
    "rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "original_max_position_embeddings": 5, "llama_4_scaling_beta": 0.3,
}  # fmt: skip
OTHER = {
    "rope_parameters": ROPE, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
    "attention_bias": True, "rope_interleave": False, "first_k_dense_replace": 0, "tie_word_embeddings": True,
}  # fmt: skip

CASES = cases("mistral4", BASE, OTHER, task="CausalMistral4")
