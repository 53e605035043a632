"""Baidu's ERNIE 4.5: Llama's block, rotated in pairs of neighbours; larger ones with experts after a few dense layers."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    Head,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScoreCorrectionBias,
    SharedExpert,
    TopK,
    pre_norm,
)
from anyformer.parts.sublayer import Sublayer

NORM = RMSNorm(eps=1e-5)
ROUTER = Router(choice=TopK(correction=ScoreCorrectionBias(rate=0.001)), renormalise=Renormalise(eps=0.0, least=1e-12))


def ernie(
    experts: Sublayer | None = None,
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    dense: int = 0,
    head_width: int | None = None,
    tied: bool = True,
) -> Architecture:
    """ERNIE Team 2025, section 2: `experts` take the place of the feed-forward network after the first `dense` layers."""
    rotary = Rotary(theta=500_000.0, pairing="adjacent", rotate_in="fp32")
    attention = Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, place=rotary)
    first = pre_norm(NORM, attention, FeedForward(width=ffn, activation="silu", gated=True))
    routed = pre_norm(NORM, attention, experts) if experts else first
    layers = [first] * dense + [routed] * (depth - dense)
    names: Named[Block] = Named(dense=first, experts=routed) if experts else Named(layer=first)
    return decoder_only(Embedding(vocab=103_424), width, layers, names=names, final_norm=NORM, head=Head(tied=tied))


_SHARED = SharedExpert(feedforward=FeedForward(width=3072))
_21B = Experts(experts=64, chosen=6, width=1536, router=ROUTER, shared=_SHARED)
_300B = Experts(experts=64, chosen=8, width=3584, router=ROUTER)
_SOURCE = "ERNIE 4.5 Technical Report, section 2; released configuration ERNIE-4.5-{}-PT"

ENTRIES = (
    Entry("ernie-4.5-0.3b", 2025, "a Llama rotated in pairs of neighbours, tied", _SOURCE.format("0.3B"),
          partial(ernie, width=1024, depth=18, heads=16, kv_heads=2, head_width=128, ffn=3072)),
    Entry("ernie-4.5-21b-a3b", 2025, "6 of 64 experts and two shared ones", _SOURCE.format("21B-A3B"),
          partial(ernie, _21B, width=2560, depth=28, heads=20, kv_heads=4, ffn=12_288, dense=1)),
    Entry("ernie-4.5-300b-a47b", 2025, "8 of 64 experts", _SOURCE.format("300B-A47B"),
          partial(ernie, _300B, width=8192, depth=54, heads=64, kv_heads=8, ffn=28_672, dense=3, tied=False)),
)  # fmt: skip
