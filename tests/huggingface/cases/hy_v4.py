"""Hy4: fewer keys than positions and as many; indexers of their own and of earlier layers, beside either network."""

from __future__ import annotations

from huggingface.case import cases

# So many index heads that no score is 0 and none near another: ties are anybody's choice.
BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 12, "q_lora_rank": 8, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "v_head_dim": 7, "n_routed_experts": 6, "num_experts_per_tok": 2, "max_position_embeddings": 64, "index_topk": 5,
    "index_n_heads": 16, "index_head_dim": 8, "hc_mult": 3, "pad_token_id": None,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16, "mscale": 0.8,
    "mscale_all_dim": 1.2,
}  # fmt: skip
OTHER = {
    "n_group": 3, "topk_group": 2, "attention_bias": True, "n_shared_experts": 2, "norm_topk_prob": False, "index_topk": 64,
    "routed_scaling_factor": 1.3, "swiglu_limit": 0.4, "hc_eps": 1e-3, "hc_magnitude": 1.3, "rms_norm_eps": 1e-3,
    "rope_parameters": YARN, "mlp_layer_types": ["sparse", "dense", "sparse"], "tie_word_embeddings": True,
}  # fmt: skip
SHARED = ["full", "shared", "full", "shared", "shared"]

CASES = cases("hy_v4", BASE, OTHER, {"num_hidden_layers": 5, "indexer_types": SHARED})
