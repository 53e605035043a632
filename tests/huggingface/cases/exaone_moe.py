"""K-EXAONE."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "exaone_moe",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 8, "n_group": 4, "topk_group": 2,
            "num_experts_per_tok": 3, "num_shared_experts": 2, "sliding_window": 5, "sliding_window_pattern": 3,
            "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-3, "first_k_dense_replace": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
        name="groups",
    ),
    Case(
        "exaone_moe",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 1, "num_experts": 5, "num_experts_per_tok": 2,
            "norm_topk_prob": False, "sliding_window": 4, "tie_word_embeddings": True, "hidden_act": "gelu",
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="tied",
    ),
]  # fmt: skip
