"""DeepSeek-V4: layers with a window alone, with chosen entries and with all; experts by a table and by scores."""

from __future__ import annotations

from huggingface.case import Case, cases

WINDOW, CHOSEN, ALL = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
# So many index heads that no score is 0 and none near another: ties are anybody's choice.
BASE = {
    "hidden_size": 32, "moe_intermediate_size": 12, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 8,
    "q_lora_rank": 10, "n_routed_experts": 6, "num_experts_per_tok": 2, "sliding_window": 3, "o_groups": 2, "o_lora_rank": 5,
    "layer_types": [WINDOW, CHOSEN, ALL, CHOSEN], "compress_rates": {CHOSEN: 2, ALL: 3},
    "mlp_layer_types": ["hash_moe", "hash_moe", "moe", "moe"], "index_n_heads": 16, "index_head_dim": 8, "index_topk": 2,
    "partial_rotary_factor": 0.5, "hc_mult": 3, "hc_sinkhorn_iters": 4, "max_position_embeddings": 64,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16, "beta_fast": 8.0,
    "beta_slow": 1.0, "attention_factor": 1.2, "partial_rotary_factor": 0.5,
}  # fmt: skip
OTHER = {
    "rope_parameters": {"main": {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.5}, "compress": YARN},
    "scoring_func": "sigmoid", "routed_scaling_factor": 1.1, "swiglu_limit": 0.4, "hidden_act": "gelu", "rms_norm_eps": 1e-3,
    "hc_eps": 1e-3, "index_head_dim": 12, "index_topk": 9, "tie_word_embeddings": True,
}  # fmt: skip
FLAT = {
    "layer_types": None, "num_hidden_layers": 5, "mlp_layer_types": None, "compress_rope_theta": 400.0, "rope_theta": 30.0,
    "rope_parameters": {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 8},
}  # fmt: skip
_POOLS = "transformers pools padding into entries"

CASES: list[Case] = [
    *cases(
        "deepseek_v4",
        BASE,
        OTHER,
        FLAT,
        unpadded=_POOLS,
        gradients=5e-4,
        why="the last norm divides by what the merge of the streams multiplies them by: its gradients nearly cancel",
    ),
    Case(
        "deepseek_v4",
        {"vocab_size": 53}
        | BASE
        | {"layer_types": [WINDOW] * 2, "num_hidden_layers": 2, "mlp_layer_types": ["moe", "hash_moe"]},
        name="window",
    ),
]
