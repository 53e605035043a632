"""GPT-J and CodeGen."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16, "rotary_dim": 4, "attn_pdrop": 0.1, "embd_pdrop": 0.2,
    "resid_pdrop": 0.3, "layer_norm_epsilon": 1e-2,
}  # fmt: skip
OTHER = {"n_head": 8, "n_embd": 48, "rotary_dim": 2, "n_inner": 20, "activation_function": "relu", "tie_word_embeddings": True}

CASES = [*cases("gptj", BASE, OTHER), *cases("codegen", BASE, OTHER)]
