"""Columns as a reader of the papers would fill them in."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture
from anyformer.catalogue.columns import columns

FILLED = {
    "gpt-1": {"norm": "LayerNorm", "placement": "post", "position": "learned", "activation": "GELU", "attention": "MHA"},
    "t5-v1.1-xl": {"shape": "encoder-decoder", "layers": 48, "position": "relative", "activation": "GeGLU"},
    "gpt-j-6b": {"wiring": "parallel", "placement": "pre", "position": "RoPE"},
    "bloom-176b": {"position": "ALiBi", "stability": ("embedding norm",)},
    "palm-540b": {"wiring": "parallel", "attention": "MQA", "activation": "SwiGLU", "stability": ("logit scale",)},
    "gemma-2-27b": {
        "placement": "sandwich",
        "window": "local 4096+full",
        "stability": ("score soft-cap", "embedding scale", "logit soft-cap"),
    },
    "olmo-2-13b": {"placement": "output", "stability": ("QK-norm",)},
    "nemotron-4-340b": {"activation": "ReLU²", "attention": "GQA"},
    "command-a": {"position": "RoPE+NoPE", "window": "local 4096+full", "wiring": "parallel"},
    "deepseek-v3": {"attention": "MLA", "experts": 256, "chosen": 8, "stability": ("latent norm",), "active": 37_552_297_472},
    "qwen3-next-80b-a3b": {"attention": "delta+GQA", "experts": 512, "chosen": 10, "stability": ("QK-norm", "output gate")},
    "minimax-text-01": {"attention": "lightning+GQA", "placement": "post", "stability": ("residual scale",)},
    "kimi-linear-48b-a3b": {"attention": "delta+MLA", "position": "NoPE"},
    "lfm2-1.2b": {"attention": "convolution+GQA"},
    "gpt-oss-120b": {"window": "local 128+full", "experts": 128, "chosen": 4, "stability": ("sinks", "clamp")},
    "bert-base-uncased": {"shape": "encoder-only", "placement": "post", "position": "learned", "activation": "GELU"},
    "deberta-v3-base": {"shape": "encoder-only", "position": "relative", "stability": ("embedding norm",)},
    "vit-base-16": {"shape": "encoder-only", "placement": "pre", "position": "learned", "layers": 12},
    "bart-large": {"shape": "encoder-decoder", "layers": 24, "placement": "post", "position": "learned", "window": "full"},
    "switch-base-8": {"shape": "encoder-decoder", "experts": 8, "chosen": 1, "activation": "ReLU"},
    "whisper-tiny": {"shape": "encoder-decoder", "position": "sinusoidal+learned", "parameters": 37_184_640},
    "perceiver-imagenet": {"shape": "latent", "layers": 56},
    "gemma-4-31b": {
        "placement": "sandwich",
        "window": "local 1024+full",
        "stability": ("QK-norm", "V-norm", "layer scale", "embedding scale", "logit soft-cap"),
    },
}


@pytest.mark.parametrize("name", FILLED)
def test_columns_are_computed(name):
    made = columns(architecture(name))
    assert {column: getattr(made, column) for column in FILLED[name]} == FILLED[name]
