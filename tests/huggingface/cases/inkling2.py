"""Inkling 2: layers with a window and without, and blocks of several layers."""

from __future__ import annotations

from huggingface.case import VOCAB, cases

BASE = {
    "unpadded_vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "swa_num_attention_heads": 3, "swa_num_key_value_heads": 1, "swa_head_dim": 6, "sliding_window_size": 5,
    "d_rel": 3, "rel_extent": 6, "log_scaling_n_floor": 4, "log_scaling_alpha": 0.7, "conv_kernel_size": 3,
    "rms_norm_eps": 1e-3, "moe_intermediate_size": 12, "n_routed_experts": 6, "num_experts_per_tok": 2,
    "n_layers_per_attn_res_block": 2, "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding", "hybrid"],
    "qk_l2_clip_threshold": 1.5, "rel_l2_clip_threshold": 0.9, "eos_token_id": None,
}  # fmt: skip

CASES = cases(
    "inkling2_text",
    BASE,
    {"final_logit_softcapping": 2.0, "attention_dropout": 0.1, "route_scale": 2.5},
    {"mlp_gate_softcap": 0.5, "mlp_up_softcap": 0.7, "n_layers_per_attn_res_block": 1, "layer_types": ["hybrid"] * 4},
    {"num_hidden_layers": 7, "layer_types": None, "n_layers_per_attn_res_block": 3, "max_position_embeddings": 64},
)
