"""Columns as a reader of the papers would fill them in."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture
from anyformer.catalogue.columns import columns

FILLED = {
    "gpt-1": {"norm": "LayerNorm", "placement": "post", "position": "learned", "activation": "GELU", "attention": "MHA"},
    "t5-v1.1-xl": {"shape": "encoder-decoder", "layers": 48, "position": "relative", "activation": "GeGLU"},
    "gpt-j-6b": {"wiring": "parallel", "placement": "pre", "position": "RoPE"},
    "bloom-176b": {"position": "ALiBi", "tricks": ("embedding norm",)},
    "palm-540b": {"wiring": "parallel", "attention": "MQA", "activation": "SwiGLU", "tricks": ("logit scale",)},
    "gemma-2-27b": {
        "placement": "sandwich",
        "reach": "local 4096+full",
        "tricks": ("score soft-cap", "embedding scale", "logit soft-cap"),
    },
    "olmo-2-13b": {"placement": "output", "tricks": ("QK-norm",)},
    "nemotron-4-340b": {"activation": "ReLU²", "attention": "GQA"},
    "command-a": {"position": "RoPE+NoPE", "reach": "local 4096+full", "wiring": "parallel"},
    "deepseek-v3": {"attention": "MLA", "experts": 256, "chosen": 8, "tricks": ("latent norm",), "active": 37_552_297_472},
    "qwen3-next-80b-a3b": {"attention": "delta+GQA", "experts": 512, "chosen": 10, "tricks": ("QK-norm", "output gate")},
    "minimax-text-01": {"attention": "lightning+GQA", "placement": "post", "tricks": ("residual scale",)},
    "kimi-linear-48b-a3b": {"attention": "delta+MLA", "position": "NoPE"},
    "lfm2-1.2b": {"attention": "convolution+GQA"},
}


@pytest.mark.parametrize("name", FILLED)
def test_columns_are_computed(name):
    made = columns(architecture(name))
    assert {column: getattr(made, column) for column in FILLED[name]} == FILLED[name]
