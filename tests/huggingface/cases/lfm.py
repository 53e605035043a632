"""LFM2: short convolutions and attention, a width that is rounded, experts after dense layers."""

from __future__ import annotations

from huggingface.case import VOCAB, Case, cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "norm_eps": 1e-3, "layer_types": ["conv", "full_attention", "conv"],
}  # fmt: skip
EXPERTS = {"moe_intermediate_size": 12, "num_experts": 5, "num_experts_per_tok": 2, "num_dense_layers": 1}
STRETCHED = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}

LEAK = "with biases its convolution reads what padding has become"
BIASED = {"conv_bias": True, "block_multiple_of": 7, "block_ffn_dim_multiplier": 1.3}

THIRD = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 64, "sliding_window": 4, "pad_token_id": 0,
    "layer_types": ["conv", "sliding_attention", "full_attention"],
}  # fmt: skip
PLAIN = {
    "use_sandwich_norm": False, "use_attention_gate": False, "attention_bias": True, "tie_word_embeddings": False,
    "conv_L_cache": 3, "norm_eps": 1e-3, "num_hidden_layers": 5, "layer_types": None,
    "rope_parameters": {"sliding_attention": STRETCHED, "full_attention": {"rope_type": "default", "rope_theta": 50.0}},
}  # fmt: skip

CASES = [
    *cases("lfm3", THIRD, PLAIN),
    Case("lfm2", {"vocab_size": VOCAB} | BASE | BIASED, name="biased", unpadded=LEAK),
    *cases(
        "lfm2",
        BASE,
        {"layer_types": None, "full_attn_idxs": [0, 2], "head_dim": 6, "block_auto_adjust_ff_dim": False,
                "conv_L_cache": 4, "tie_word_embeddings": False, "rope_parameters": STRETCHED},
    ),
    *cases(
        "lfm2_moe",
        BASE | EXPERTS | {"routed_scaling_factor": 1.7},
        {"use_expert_bias": False, "norm_topk_prob": False, "num_dense_layers": 0, "tie_word_embeddings": False,
         "rope_parameters": STRETCHED, "layer_types": ["full_attention", "conv", "full_attention"]},
    ),
]  # fmt: skip
