"""Beam."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip
SLOTS = "transformers counts the queries' temperature from the first slot, padding included"

CASES = [
    Case(
        "beam",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 6, "num_experts_per_tok": 3,
            "n_group": 3, "topk_group": 2, "sliding_window": 5, "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
            "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-3, "attention_bias": True, "norm_topk_prob": False,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            "final_logit_softcapping": 2.0,
        },
        name="groups",
        unpadded=SLOTS,
    ),
    Case(
        "beam",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 1, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 1,
            "n_group": 1, "topk_group": 1, "sliding_window": 4, "tie_word_embeddings": True, "hidden_act": "gelu",
            "final_logit_softcapping": None, "attention_dropout": 0.2,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
            },
        },
        name="tied",
    ),
]  # fmt: skip
