"""ModernBERT: an encoder with rotary positions, gated networks, and two local layers to one global; its decoder."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Branch,
    Causal,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Rotary,
    Step,
    Transform,
    Window,
    pre_norm,
)


def modernbert(*, width: int, depth: int, heads: int, ffn: int, causal: bool = False, vocab: int = 50_368) -> Architecture:
    """Warner et al. 2024 (arXiv 2412.13663), section 2.1: pre-norm without biases; local layers see 64 tokens each way.

    The first layer's attention reads the embeddings, which are normed already. Ettin (Weller et al. 2025, 2507.11412) is
    the same, if `causal` with the 64 latest tokens.
    """
    norm = LayerNorm(eps=1e-5, bias=False)
    global_ = Attention(
        heads=heads, mask=Causal() if causal else Bidirectional(), place=Rotary(theta=160_000.0, rotate_in="fp32")
    )
    window = Window(size=64) if causal else Window(size=65, after=64)
    local = global_.but(mask=window, rotary=Rotary(theta=10_000.0, rotate_in="fp32"))
    feedforward = FeedForward(width=ffn, activation="gelu", gated=True)
    usual = pre_norm(norm, global_, feedforward)
    first = Block(steps=(Step(branches=Named(attention=Branch(sublayer=global_))), usual.steps[1]))
    blocks: Named[Block] = Named({"first": first, "local": pre_norm(norm, local, feedforward), "global": usual})
    made = decoder_only if causal else encoder_only
    return made(
        Embedding(vocab=vocab),
        width,
        [blocks["first" if layer == 0 else "local" if layer % 3 else "global"] for layer in range(depth)],
        names=blocks,
        input_norm=norm,
        final_norm=norm,
        head=Head(tied=True, bias=True, transform=Transform(activation="gelu", norm=norm, bias=False)),
    )


_WHAT = "rotary encoder, two local layers to one global, masked tokens"
_PAPER = "arXiv 2412.13663, table 4; released configuration ModernBERT-{}"

ENTRIES = (
    Entry("modernbert-base", 2024, _WHAT, _PAPER.format("base"), partial(modernbert, width=768, depth=22, heads=12, ffn=1152)),
    Entry("modernbert-large", 2024, _WHAT, _PAPER.format("large"),
          partial(modernbert, width=1024, depth=28, heads=16, ffn=2624)),
)  # fmt: skip
