"""DBRX."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

CASES = [
    Case(
        "dbrx",
        {
            "vocab_size": VOCAB, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.8, "rope_theta": 500.0},
            "ffn_config": {"ffn_hidden_size": 12, "moe_num_experts": 5, "moe_top_k": 3},
        },
        name="clipped",
    ),
    Case(
        "dbrx",
        {
            "vocab_size": VOCAB, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
            "attn_config": {"kv_n_heads": 1, "clip_qkv": 1.5, "rope_theta": 100.0},
            "ffn_config": {
                "ffn_hidden_size": 8, "moe_num_experts": 4, "moe_top_k": 2, "moe_normalize_expert_weights": None,
                "ffn_act_fn": {"name": "gelu"},
            },
        },
        name="plain_weights",
    ),
]  # fmt: skip
