"""A tiny mixture of experts and what its tests ask of it."""

from __future__ import annotations

import torch
from zoo import LOUD, RMS, SELF, VOCAB

from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.objectives import Examples
from anyformer.parts import Embedding, Experts, pre_norm

X, K, D = 6, 2, 24
B, T = 2, 11


def of(layers: int = 1, **fields):
    """A tiny language model with experts."""
    block = pre_norm(RMS, SELF, Experts(**{"experts": X, "chosen": K, "width": 12} | fields))
    return decoder_only(Embedding(vocab=VOCAB), D, [block] * layers, final_norm=RMS, initialisation=LOUD)


def randomised(architecture, dtype=torch.float64):
    """A model in which no weight is zero, biases and corrections included."""
    model = build(architecture, dtype=dtype).eval()
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(i)
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def tokens(seed: int = 0, rows: int = B, length: int = T) -> torch.Tensor:
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def examples(x: torch.Tensor, targets: torch.Tensor | None = None) -> Examples:
    return Examples(x, x.roll(-1, 1) if targets is None else targets, None, torch.arange(len(x)))


def experts_of(model, layer: int = 0):
    return model.get_submodule(f"decoder.layers.{layer}.experts.sublayer")
