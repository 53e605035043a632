"""Mamba and Falcon Mamba: ranks, kernels, biases; Mamba-2: groups, biases, limits of the time step."""

from __future__ import annotations

from huggingface.case import VOCAB, Case, cases

BASE = {
    "hidden_size": 24, "num_heads": 6, "head_dim": 8, "state_size": 5, "n_groups": 2, "num_hidden_layers": 2,
    "layer_norm_epsilon": 1e-3, "time_step_limit": [0.0, 10.0],
}  # fmt: skip
LEAK = "transformers zeroes padding before the projection, whose bias then enters the convolution"

SELECTIVE = {"hidden_size": 24, "state_size": 5, "num_hidden_layers": 2, "layer_norm_epsilon": 1e-3}
OTHER = {
    "time_step_rank": 3, "expand": 3, "conv_kernel": 3, "use_conv_bias": False, "hidden_act": "relu",
    "tie_word_embeddings": False,
}  # fmt: skip

CASES = [
    *cases("mamba", SELECTIVE, OTHER),
    *cases("falcon_mamba", SELECTIVE | {"mixer_rms_eps": 1e-2}, OTHER),
    Case("mamba", {"vocab_size": VOCAB} | SELECTIVE | {"use_bias": True}, name="use_bias", unpadded=LEAK),
    *cases(
        "mamba2",
        BASE,
        {"n_groups": 1, "expand": 3, "num_heads": 9, "conv_kernel": 3, "use_conv_bias": False, "hidden_act": "relu",
         "tie_word_embeddings": True, "time_step_limit": [0.6, 0.9]},
    ),
    Case("mamba2", {"vocab_size": VOCAB} | BASE | {"use_bias": True}, name="use_bias", unpadded=LEAK),
]  # fmt: skip
