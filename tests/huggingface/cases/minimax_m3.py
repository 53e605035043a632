"""MiniMax-M3's text model."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

SPARSE, FULL = "minimax_m3_sparse", "full_attention"
BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "dense_intermediate_size": 20,
    "shared_intermediate_size": 8, "num_attention_heads": 4, "num_hidden_layers": 3, "max_position_embeddings": 64,
}  # fmt: skip
SLOTS = "transformers counts blocks from the first slot, padding included"

CASES = [
    Case(
        "minimax_m3_vl_text",
        BASE | {
            "num_key_value_heads": 2, "head_dim": 12, "num_local_experts": 5, "num_experts_per_tok": 3, "rms_norm_eps": 1e-3,
            "index_n_heads": 2, "index_head_dim": 8, "index_block_size": 2, "index_topk_blocks": 3, "index_local_blocks": 2,
            "layer_types": [FULL, SPARSE, SPARSE], "mlp_layer_types": ["dense", "sparse", "dense"], "swiglu_limit": 2.0,
            "routed_scaling_factor": 1.5, "rotary_dim": 6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
        },
        name="sparse",
        unpadded=SLOTS,
    ),
    Case(
        "minimax_m3_vl_text",
        BASE | {
            "num_key_value_heads": 1, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 1, "index_n_heads": 1,
            "index_head_dim": 8, "index_block_size": 3, "index_topk_blocks": 2, "index_local_blocks": 0,
            "layer_types": [SPARSE, SPARSE, FULL], "tie_word_embeddings": True, "attention_dropout": 0.0,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="tied",
        unpadded=SLOTS,
    ),
    Case(
        "minimax_m3_vl_text",
        BASE | {
            "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_dropout": 0.2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
        },
        name="full",
    ),
]  # fmt: skip
