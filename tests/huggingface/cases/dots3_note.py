"""dots3-note: chosen keys and windows with sizes of their own, in every way that files give them."""

from __future__ import annotations

from huggingface.case import cases

# So many index heads that no score is 0 and none near another: ties are anybody's choice.
BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 12, "q_lora_rank": 8, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "head_dim": 10, "v_head_dim": 7, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2,
    "max_position_embeddings": 64, "index_topk": 5, "index_n_heads": 16, "index_head_dim": 8, "sliding_window": 4,
    "shared_experts_intermediate_size": 9, "pad_token_id": None, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2,
    "swa_q_lora_rank": 9, "swa_kv_lora_rank": 11, "swa_head_dim": 12, "swa_qk_nope_head_dim": 6, "swa_v_head_dim": 5,
}  # fmt: skip
LAYER = {"num_attention_heads": 8, "num_key_value_heads": 8, "v_head_dim": 3, "head_dim": 10}
ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 300.0},
    "sliding_attention": {
        "rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16,
    },
}  # fmt: skip

CASES = cases(
    "dots3_note_text",
    BASE,
    {"index_topk": 64, "use_sliding_window": False, "attention_bias": True, "n_shared_experts": 2, "rms_norm_eps": 1e-3,
     "rope_theta": 200.0, "first_k_dense_replace": 2, "hidden_act": "gelu", "routed_scaling_factor": 1.3},
    {"layer_types": ["full_attention", "sliding_attention"] * 2, "per_layer_config": {"1": LAYER, "3": LAYER},
     "rope_parameters": ROPE, "norm_topk_prob": False, "n_group": 1, "topk_group": 1, "tie_word_embeddings": True},
    {"use_dsa": False, "moe_layer_freq": [0, 1, 0, 1], "swa_rope_theta": 70.0},
)  # fmt: skip
