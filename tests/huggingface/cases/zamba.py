"""Zamba: one shared block read by some layers, Mamba of one head and of several."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 4, "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    "n_mamba_heads": 2, "mamba_d_state": 6, "rms_norm_eps": 1e-3, "max_position_embeddings": 64,
}  # fmt: skip
OTHER = {
    "layers_block_type": ["hybrid", "linear_attention", "hybrid", "hybrid"], "n_mamba_heads": 4, "num_key_value_heads": 2,
    "attention_head_dim": 10, "attention_hidden_size": 64, "mamba_expand": 3, "mamba_d_conv": 3, "mamba_dt_rank": 5,
    "mamba_conv_bias": False, "hidden_act": "silu", "hidden_mamba_act": "gelu", "tie_word_embeddings": False,
}  # fmt: skip
PERIODIC = {
    "layers_block_type": None, "num_hidden_layers": 5, "attn_layer_period": 2, "attn_layer_offset": 1, "n_mamba_heads": 1,
}  # fmt: skip
LEAK = "transformers zeroes padding before the projection, whose bias then enters the convolution"

CASES = [
    Case("zamba", BASE),
    Case("zamba", BASE | OTHER, name="other"),
    Case("zamba", BASE | PERIODIC, name="periodic"),
    Case("zamba", BASE | {"mamba_proj_bias": True}, name="biased", unpadded=LEAK),
]
