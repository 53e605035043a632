"""Beam: experts behind dense layers, windows with rotary positions, residuals scaled by depth."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    Groups,
    Head,
    OutputGate,
    PowerTemperature,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Window,
    sandwich,
)
from anyformer.parts.sublayer import Sublayer

_NORM = RMSNorm(eps=1e-6, cast="after_gain")


def _scaled(*sublayers: Sublayer) -> Block:
    block = sandwich(_NORM, *sublayers)
    return block.but(steps=tuple(step.but(residual_scale="by_layer") for step in block.steps))


def beam(
    *,
    width: int,
    depth: int,
    dense: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    experts: int,
    chosen: int,
    expert: int,
    window: int,
) -> Architecture:
    """Reflection AI 2026: every sixth layer and the last see everything, without positions, their queries scaled by place."""
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=128,
        project=Projection(adjust=QKNorm(norm=_NORM)),
        combine=OutputGate(bias="head"),
    )
    local, full = attention.but(mask=Window(size=window), rotary=Rotary()), attention.but(temperature=PowerTemperature())
    router = by_correction(scale=2.5, groups=Groups(count=8, keep=4, score="top_2"))
    routed, network = Experts(experts=experts, chosen=chosen, width=expert, router=router), FeedForward(width=ffn)
    blocks: Named[Block] = Named(dense=_scaled(local, network), local=_scaled(local, routed), full=_scaled(full, routed))
    order = ["dense" if i < dense else "full" if i % 6 == 5 or i == depth - 1 else "local" for i in range(depth)]
    layers = [blocks[name] for name in order]
    head = Head(softcap=30.0)
    return decoder_only(Embedding(vocab=151_936), width, layers, names=blocks, final_norm=_NORM, head=head)


ENTRIES = (
    Entry("beam-1.0-501b-a23b", 2026, "8 of 256 experts, windows, residuals scaled by depth, gates with a bias per head",
          "defaults of the configuration class of Beam-1.0-501B-A23B in transformers 5.23",
          partial(beam, width=5120, depth=52, dense=3, heads=48, kv_heads=8, ffn=20_480, experts=256, chosen=8, expert=2560,
                  window=512)),
)  # fmt: skip
