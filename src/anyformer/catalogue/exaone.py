"""LG's EXAONE: norms on outputs, then before sublayers; local layers are rotated, global ones have no positions."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    Llama3Scaling,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Window,
    output_norm,
    pre_norm,
)

NORM = RMSNorm(eps=1e-5)


def exaone4(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, window: int | None = None, tied: bool = False
) -> Architecture:
    """LG AI Research 2025 (arXiv 2507.11407), section 2.1: norms after sublayers and on heads.

    With `window` three local layers to a global one without positions, else all layers are global and rotated.
    """
    rotary = Rotary(theta=1_000_000.0, scaling=Llama3Scaling(factor=16.0))
    rotated = Attention(heads=heads, kv_heads=kv_heads, project=Projection(adjust=QKNorm(norm=NORM)), place=rotary)
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    full = output_norm(NORM, rotated, feedforward)
    layers = [full] * depth
    names: Named[Block] = Named(full=full)
    if window:
        local = output_norm(NORM, rotated.but(mask=Window(size=window)), feedforward)
        full = output_norm(NORM, rotated.but(rotary=None), feedforward)
        layers, names = [local, local, local, full] * (depth // 4), Named(local=local, full=full)
    return decoder_only(Embedding(vocab=102_400), width, layers, names=names, final_norm=NORM, head=Head(tied=tied))


def k_exaone(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, experts: int, chosen: int, expert: int, window: int
) -> Architecture:
    """LG AI Research 2026 (arXiv 2601.01739), section 2: norms before sublayers, one dense layer, then fine experts."""
    local = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=128,
        mask=Window(size=window),
        project=Projection(adjust=QKNorm(norm=NORM)),
        place=Rotary(theta=1_000_000.0),
    )
    full = Attention(heads=heads, kv_heads=kv_heads, head_width=128, project=Projection(adjust=QKNorm(norm=NORM)))
    routed = fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=by_correction(scale=2.5))
    blocks: Named[Block] = Named(
        dense=pre_norm(NORM, local, FeedForward(width=ffn)),
        local=pre_norm(NORM, local, routed),
        full=pre_norm(NORM, full, routed),
    )
    layers = [blocks["full" if layer % 4 == 3 else "local" if layer else "dense"] for layer in range(depth)]
    return decoder_only(Embedding(vocab=153_600), width, layers, names=blocks, final_norm=NORM)


_SOURCE_4 = "arXiv 2507.11407, section 2.1; released configuration EXAONE-4.0-{}"

ENTRIES = (
    Entry("exaone-4.0-1.2b", 2025, "norms on outputs and heads, tied", _SOURCE_4.format("1.2B"),
          partial(exaone4, width=2048, depth=30, heads=32, kv_heads=8, ffn=4096, tied=True)),
    Entry("exaone-4.0-32b", 2025, "norms on outputs and heads, three local layers to a global one without positions",
          _SOURCE_4.format("32B"),
          partial(exaone4, width=5120, depth=64, heads=40, kv_heads=8, ffn=27_392, window=4096)),
    Entry("k-exaone-236b-a23b", 2026, "8 of 128 experts, three local layers to a global one without positions",
          "arXiv 2601.01739, section 2; released configuration K-EXAONE-236B-A23B",
          partial(k_exaone, width=6144, depth=48, heads=64, kv_heads=8, ffn=18_432, experts=128, chosen=8, expert=2048,
                  window=128)),
)  # fmt: skip
