"""Dory: transformers on the unit sphere (nGPT), of which the layers in the middle are computed several times."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Causal,
    Embedding,
    FeedForward,
    GainedGate,
    Head,
    Initialisation,
    Looped,
    Normal,
    Projection,
    QKNorm,
    QueryGain,
    Rotary,
    ScaledGain,
    Step,
    SubNorm,
    UnitNorm,
    Window,
)
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sublayer import Sublayer

WIDTH, STORED = 2560, 0.0177
NORM = UnitNorm(eps=1e-6)


def dory_4b() -> Architecture:
    """NVIDIA 2026: 8 layers, then 20 twice, then 8; three layers of four see a window, each kind with a theta of its own."""
    kinds = {"local": _layer(Window(size=1024), 10_000.0), "full": _layer(Causal(), 10_000_000.0)}
    layers = [("full", kinds["full"]) if i % 4 == 3 else ("local", kinds["local"]) for i in range(36)]
    rule = Normal(std=STORED)
    return Architecture(
        width=WIDTH,
        embedding=Embedding(vocab=131_072),
        decoder=Looped(before=8, looped=20, times=2).stack(layers, NORM),
        head=Head(gain=ScaledGain(stored=STORED)),
        initialisation=Initialisation(matrix=rule, embedding=rule),
    )


def _layer(mask: Mask, theta: float) -> Block:
    attention = Attention(
        heads=16,
        kv_heads=4,
        head_width=256,
        project=Projection(adjust=(QKNorm(norm=NORM), QueryGain(initial=16.0, stored=STORED))),
        mask=mask,
        place=Rotary(theta=theta),
        combine=(GainedGate(gain=ScaledGain(initial=WIDTH**0.25, stored=STORED)), SubNorm(norm=NORM)),
    )
    network = FeedForward(width=7168, gains=ScaledGain(initial=WIDTH**0.5), sub_norm=NORM)
    return Block(steps=(_on_sphere(attention), _on_sphere(network)))


def _on_sphere(sublayer: Sublayer) -> Step:
    """From a vector of length 1 a learned share of the way to another."""
    branches: Named[Branch] = Named({sublayer.called: Branch(sublayer=sublayer, norm_after=NORM)})
    return Step(norm_before=NORM, branches=branches, residual="normed", interpolation=ScaledGain(initial=0.05, stored=STORED))


ENTRIES = (
    Entry("dory-4b", 2026, "nGPT whose 20 middle layers are computed twice, or more often",
          "arXiv 2611.03998; transformers 5.24.0, DoryConfig", dory_4b),
)  # fmt: skip
