"""Qwen3-Next and Qwen 3.5: three layers of gated delta net to one of gated attention, with dense networks or experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    DeltaAttention,
    Embedding,
    Experts,
    FeedForward,
    Gate,
    OutputGate,
    Projection,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScalarDecay,
    SequentialPrediction,
    SharedExpert,
    ShortConvolution,
    pre_norm,
)
from anyformer.parts.layers.multi_token import MultiToken
from anyformer.parts.sublayer import Sublayer


def gated_delta_net(
    feedforward: Sublayer,
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    value_heads: int,
    vocab: int,
    mtp: MultiToken | None = None,
) -> Architecture:
    """Qwen Team 2025: `value_heads` of the delta layers share 16 heads of queries and keys; attention has an output gate.

    Norms are 1 + w, but for the one inside the delta layers.
    """
    norm = RMSNorm(eps=1e-6, gain="one_plus_weight", cast="after_gain")
    delta = DeltaAttention(
        heads=16,
        value_heads=value_heads,
        key_width=128,
        convolution=ShortConvolution(kernel=4, activation="silu"),
        decay=ScalarDecay(),
        norm=RMSNorm(eps=1e-6),
        gate=Gate(activation="silu"),
    )
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=256,
        project=Projection(adjust=QKNorm(norm=norm)),
        place=Rotary(theta=10_000_000.0, fraction=0.25),
        combine=OutputGate(activation="sigmoid"),
    )
    linear, full = pre_norm(norm, delta, feedforward), pre_norm(norm, attention, feedforward)
    names: Named[Block] = Named(linear=linear, full=full)
    layers = [linear, linear, linear, full] * (depth // 4)
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=norm, mtp=mtp)


def gated_experts(*, experts: int, chosen: int) -> Experts:
    """Experts of 512 features and a shared one of as many, behind a gate."""
    return Experts(
        experts=experts,
        chosen=chosen,
        width=512,
        router=Router(renormalise=Renormalise(eps=0.0)),
        shared=SharedExpert(feedforward=FeedForward(width=512), gate="sigmoid"),
    )


_NEXT = partial(
    gated_delta_net,
    gated_experts(experts=512, chosen=10),
    vocab=151_936,
    mtp=SequentialPrediction(norm=RMSNorm(eps=1e-6, gain="one_plus_weight", cast="after_gain")),
)
_3_5 = partial(gated_delta_net, vocab=248_320)
_SOURCE = "released configuration Qwen3.5-{}, its text model"
_WHAT = "three gated delta layers to one of gated attention"

ENTRIES = (
    Entry("qwen3-next-80b-a3b", 2025, _WHAT + ", 10 of 512 experts; one more token predicted in training",
          "released configuration Qwen3-Next-80B-A3B",
          partial(_NEXT, width=2048, depth=48, heads=16, kv_heads=2, value_heads=32)),
    Entry("qwen3.5-9b", 2026, _WHAT, _SOURCE.format("9B"),
          partial(_3_5, FeedForward(width=12_288), width=4096, depth=32, heads=16, kv_heads=4, value_heads=32)),
    Entry("qwen3.5-27b", 2026, _WHAT, _SOURCE.format("27B"),
          partial(_3_5, FeedForward(width=17_408), width=5120, depth=64, heads=24, kv_heads=4, value_heads=48)),
    Entry("qwen3.5-35b-a3b", 2026, _WHAT + ", 8 of 256 experts", _SOURCE.format("35B-A3B"),
          partial(_3_5, gated_experts(experts=256, chosen=8), width=2048, depth=40, heads=16, kv_heads=2, value_heads=32)),
)  # fmt: skip
