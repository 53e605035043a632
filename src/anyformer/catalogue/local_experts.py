"""Mixtures of fine experts with windows in most layers: JetBrains' Mellum 2, poolside's Laguna, Kolibri and Flint."""

from __future__ import annotations

from anyformer.catalogue.deepseek import by_correction, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    OutputGate,
    Projection,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScoreCorrectionBias,
    Softmax,
    TopK,
    Window,
    YaRN,
    pre_norm,
    sandwich,
)

NORM = RMSNorm(eps=1e-6)


def mellum2() -> Architecture:
    """JetBrains 2026: three local layers to a global one, whose positions YaRN stretches from 8,192 by 16."""
    rotary = Rotary(theta=500_000.0)
    local = Attention(
        heads=32, kv_heads=4, head_width=128, mask=Window(size=1024), project=Projection(adjust=QKNorm(norm=NORM)), place=rotary
    )
    scaling = YaRN(factor=16.0, trained=8192)
    full = Attention(
        heads=32, kv_heads=4, head_width=128, project=Projection(adjust=QKNorm(norm=NORM)), place=rotary.but(scaling=scaling)
    )
    routed = Experts(experts=64, chosen=8, width=896, router=Router(renormalise=Renormalise(eps=0.0)))
    blocks: Named[Block] = Named(local=pre_norm(NORM, local, routed), full=pre_norm(NORM, full, routed))
    layers = [blocks["full" if layer % 4 == 3 else "local"] for layer in range(28)]
    return decoder_only(Embedding(vocab=98_304), 2304, layers, names=blocks, final_norm=NORM)


def laguna() -> Architecture:
    """poolside 2026: a global layer, then three local ones with more heads; a softplus gate per head.

    Half of each head is rotated in global layers, stretched from 8,192 positions by 32.
    """
    full = Attention(
        heads=48,
        kv_heads=8,
        head_width=128,
        project=Projection(adjust=QKNorm(norm=NORM)),
        place=Rotary(theta=500_000.0, fraction=0.5, scaling=YaRN(factor=32.0, trained=8192, beta_fast=64.0)),
        combine=OutputGate(per="head", activation="softplus"),
    )
    local = full.but(heads=64, mask=Window(size=512), rotary=Rotary(theta=10_000.0))
    router = by_correction(scale=2.5).but(renormalise=Renormalise(eps=0.0))
    routed = fine_experts(experts=256, chosen=8, width=512, shared=1, router=router)
    blocks: Named[Block] = Named(
        dense=pre_norm(NORM, full, FeedForward(width=8192)),
        local=pre_norm(NORM, local, routed),
        full=pre_norm(NORM, full, routed),
    )
    layers = [blocks["local" if layer % 4 else "full" if layer else "dense"] for layer in range(40)]
    return decoder_only(Embedding(vocab=100_352), 2048, layers, names=blocks, final_norm=NORM)


def kolibri() -> Architecture:
    """Aleph Alpha 2026: four local layers to a global one without positions, norms before and after, experts in all layers.

    Experts are chosen by their logits, and weighed by a sigmoid of them.
    """
    local = Attention(
        heads=48,
        kv_heads=4,
        head_width=128,
        mask=Window(size=513),
        project=Projection(adjust=QKNorm(norm=NORM)),
        place=Rotary(),
    )
    full = Attention(heads=48, kv_heads=4, head_width=128, project=Projection(adjust=QKNorm(norm=NORM)))
    router = Router(score="sigmoid", choice=TopK(by="logits", correction=ScoreCorrectionBias(rate=0.001)))
    routed = fine_experts(experts=384, chosen=6, width=512, shared=1, router=router)
    blocks: Named[Block] = Named(local=sandwich(NORM, local, routed), full=sandwich(NORM, full, routed))
    layers = [blocks["full" if layer % 5 == 4 else "local"] for layer in range(50)]
    return decoder_only(Embedding(vocab=128_000), 2560, layers, names=blocks, final_norm=NORM)


def flint() -> Architecture:
    """RecursiveSI 2026: sinks in all layers; two dense global layers, then three local to one, and a global one at the end.

    Global layers have no positions.
    """
    norm = RMSNorm(eps=1e-6, cast="after_gain")
    full = Attention(
        heads=32, kv_heads=4, head_width=128, project=Projection(adjust=QKNorm(norm=norm)), weigh=Softmax(sink="head")
    )
    local = full.but(rotary=Rotary(), mask=Window(size=513))
    router = Router(score="sigmoid", renormalise=Renormalise(eps=0.0))
    routed = fine_experts(experts=256, chosen=6, width=512, shared=2, router=router)
    blocks: Named[Block] = Named(
        dense=pre_norm(norm, full, FeedForward(width=6144)),
        local=pre_norm(norm, local, routed),
        full=pre_norm(norm, full, routed),
    )
    layers = ["dense" if i < 2 else "full" if i % 4 == 1 or i == 48 else "local" for i in range(49)]
    return decoder_only(Embedding(vocab=150_144), 2048, [blocks[name] for name in layers], names=blocks, final_norm=norm)


ENTRIES = (
    Entry("mellum2-12b-a2.5b", 2026, "8 of 64 experts, three local layers to a global one",
          "released configuration Mellum2-12B-A2.5B-Base", mellum2, organisation="JetBrains"),
    Entry("laguna-xs-2.1", 2026, "8 of 256 experts, three local layers with more heads to a global one, gated heads",
          "released configuration Laguna-XS-2.1", laguna, organisation="poolside"),
    Entry("kolibri-1", 2026, "6 of 384 experts, four local layers to a global one without positions",
          "transformers 5.23, defaults of Kolibri1Config (Aleph-Alpha/Kolibri-1)", kolibri, organisation="Aleph Alpha"),
    Entry("flint", 2026, "6 of 256 experts, sinks, three local layers to a global one without positions",
          "transformers 5.23, defaults of FlintConfig (RecursiveSI/flint)", flint, organisation="RecursiveSI"),
)  # fmt: skip
