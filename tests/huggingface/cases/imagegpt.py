"""Image GPT."""

from __future__ import annotations

from huggingface.case import cases
from huggingface.cases.gpt2 import BASE

CASES = cases(
    "imagegpt",
    BASE | {"layer_norm_epsilon": 1e-1},
    {"n_inner": 20, "activation_function": "gelu", "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
    task="CausalImageModeling",
)
