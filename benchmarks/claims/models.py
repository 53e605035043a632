"""Small models that claims are measured on: one thread, fixed seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

import anyformer as af
from anyformer.parts import (
    Attention,
    Embedding,
    FanIn,
    FeedForward,
    Head,
    Initialisation,
    Normal,
    RMSNorm,
    Rotary,
    post_norm,
    pre_norm,
)

VOCAB = 50
LOUD = Initialisation(matrix=FanIn(), embedding=Normal(std=1.0), head=FanIn())
"""Every matrix keeps the variance of its input."""


def small(depth: int, width: int = 64, *, place: str = "pre", changes: Mapping[str, object] | None = None) -> af.Architecture:
    """A decoder with rotated heads of 16 features and a network of 4 widths."""
    attention = Attention(heads=width // 16, place=Rotary())
    network = FeedForward(width=4 * width, activation="gelu", gated=False)
    block = (pre_norm if place == "pre" else post_norm)(RMSNorm(), attention, network)
    final = RMSNorm() if place == "pre" else None
    made = af.decoder_only(
        Embedding(vocab=VOCAB), width, [block] * depth, final_norm=final, head=Head(), initialisation=LOUD
    )  # fmt: skip
    for path, value in (changes or {}).items():
        made = af.change(made, path, value)
    return made


def built(made: af.Architecture, *, double: bool = False, seed: int = 0) -> nn.Module:
    return af.build(made, dtype=torch.float64 if double else torch.float32, seed=seed).eval()


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Numbers from N(0, 1)."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def streams(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The residual stream after each layer."""
    found: list[Tensor] = []
    hooks = [layer.register_forward_hook(lambda _, __, output: found.append(output)) for layer in model.decoder.layers]
    model(x)
    for hook in hooks:
        hook.remove()
    return found


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of a power law through the values, by least squares in logarithms."""
    x, y = torch.tensor(sizes).double().log(), torch.tensor(values).double().log()
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
