"""OpenAI's gpt-oss: windows in every other layer, a sink per head, experts with biases and a clamped gate; a filter."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only, encoder_only
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    Embedding,
    Experts,
    Head,
    Projection,
    RMSNorm,
    Rotary,
    Router,
    Softmax,
    Window,
    YaRN,
    pre_norm,
)


def gpt_oss(
    *,
    depth: int,
    experts: int,
    width: int = 2880,
    heads: int = 64,
    kv_heads: int = 8,
    head_width: int = 64,
    chosen: int = 4,
    expert: int = 2880,
    window: int = 128,
    vocab: int = 201_088,
) -> Architecture:
    """OpenAI 2025 (arXiv 2508.10925), section 2: alternating banded and dense layers, 4 experts weighed by a softmax over them.

    An expert is g * sigmoid(1.702 g) * (u + 1), g at most 7 and u within 7. YaRN extends 4096 positions by 32.
    """
    norm = RMSNorm(eps=1e-5, cast="after_gain")
    routed = Experts(
        experts=experts,
        chosen=chosen,
        width=expert,
        activation="quick_gelu",
        bias=("gate", "up", "down"),
        clamp=7.0,
        up_offset=1.0,
        router=Router(over="chosen", bias=True),
    )
    local, global_ = (
        pre_norm(
            norm,
            Attention(
                heads=heads,
                kv_heads=kv_heads,
                head_width=head_width,
                mask=mask,
                project=Projection(bias=("query", "key", "value", "output")),
                place=Rotary(theta=150_000.0, scaling=YaRN(factor=32.0, trained=4096, truncate=False)),
                weigh=Softmax(sink="head"),
            ),
            routed,
        )
        for mask in (Window(size=window), Causal())
    )
    names: Named[Block] = Named({"local": local, "global": global_})
    return decoder_only(Embedding(vocab=vocab), width, [local, global_] * (depth // 2), names=names, final_norm=norm)


def privacy_filter() -> Architecture:
    """OpenAI 2026: an encoder of gpt-oss's parts, rotated in pairs of neighbours; one of 33 tags per token."""
    norm = RMSNorm(eps=1e-5, cast="after_gain")
    attention = Attention(
        heads=14,
        kv_heads=2,
        head_width=64,
        mask=Window(size=129, after=128),
        project=Projection(bias=("query", "key", "value", "output")),
        place=Rotary(theta=150_000.0, pairing="adjacent", scaling=YaRN(factor=32.0, trained=4096, truncate=False)),
        weigh=Softmax(sink="head"),
    )
    routed = Experts(
        experts=128,
        chosen=4,
        width=640,
        activation="quick_gelu",
        bias=("gate", "up", "down"),
        clamp=7.0,
        up_offset=1.0,
        router=Router(over="chosen", bias=True),
    )
    block = pre_norm(norm, attention, routed)
    return encoder_only(Embedding(vocab=200_064), 640, [block] * 8, final_norm=norm, head=Head(outputs=33, bias=True))


_SOURCE = "arXiv 2508.10925, table 1; released configuration gpt-oss-{}"

ENTRIES = (
    Entry("gpt-oss-20b", 2025, "windows and sinks, 4 of 32 experts", _SOURCE.format("20b"),
          partial(gpt_oss, depth=24, experts=32)),
    Entry("gpt-oss-120b", 2025, "windows and sinks, 4 of 128 experts", _SOURCE.format("120b"),
          partial(gpt_oss, depth=36, experts=128)),
    Entry("openai-privacy-filter", 2026, "gpt-oss's block that sees 128 tokens each way, and tags them; 4 of 128 experts",
          "transformers 5.23, defaults of OpenAIPrivacyFilterConfig (openai/privacy-filter)", privacy_filter),
)  # fmt: skip
