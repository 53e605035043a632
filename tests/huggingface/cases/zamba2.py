"""Zamba2: one shared block or two in turn, with low-rank matrices of each layer's own, with and without rotary positions."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

L, H = "linear_attention", "hybrid"
BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
    "layers_block_type": [L, H, L, H], "n_mamba_heads": 4, "mamba_d_state": 6, "mamba_ngroups": 2, "adapter_rank": 3,
    "rms_norm_eps": 1e-3, "max_position_embeddings": 64,
}  # fmt: skip
TWO = {
    "num_hidden_layers": 5, "layers_block_type": [L, H, H, L, H], "num_mem_blocks": 2, "use_shared_attention_adapter": True,
    "use_mem_rope": True, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}, "num_key_value_heads": 4,
    "attention_head_dim": 16, "hidden_act": "silu", "time_step_min": 0.6, "mamba_expand": 3, "mamba_d_conv": 3,
    "n_mamba_heads": 6, "mamba_ngroups": 1, "intermediate_size": None,
}  # fmt: skip
MORE = {"num_mem_blocks": 3, "layers_block_type": [L, H, H, L], "num_key_value_heads": 2, "use_conv_bias": False}
LEAK = "transformers zeroes padding before the projection, whose bias then enters the convolution"

CASES = [
    Case("zamba2", BASE),
    Case("zamba2", BASE | TWO, name="two"),
    Case("zamba2", BASE | MORE, name="more_blocks_than_readers"),
    Case(
        "zamba2",
        BASE | {"add_bias_linear": True, "num_hidden_layers": 3, "layers_block_type": [H, L, H]},
        name="biased",
        unpadded=LEAK,
    ),
]
