"""OpenAI's gpt-oss: windows of 128 in every other layer, a sink for each head, experts with biases and a clamped gate."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Block, Causal, Embedding, Experts, RMSNorm, Rotary, Router, Window, YaRN, pre_norm


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
                bias=("query", "key", "value", "output"),
                rotary=Rotary(theta=150_000.0, scaling=YaRN(factor=32.0, trained=4096, truncate=False)),
                sink="head",
                mask=mask,
            ),
            routed,
        )
        for mask in (Window(size=window), Causal())
    )
    names: Named[Block] = Named({"local": local, "global": global_})
    return decoder_only(Embedding(vocab=vocab), width, [local, global_] * (depth // 2), names=names, final_norm=norm)


_SOURCE = "arXiv 2508.10925, table 1; released configuration gpt-oss-{}"

ENTRIES = (
    Entry("gpt-oss-20b", 2025, "windows and sinks, 4 of 32 experts", _SOURCE.format("20b"),
          partial(gpt_oss, depth=24, experts=32)),
    Entry("gpt-oss-120b", 2025, "windows and sinks, 4 of 128 experts", _SOURCE.format("120b"),
          partial(gpt_oss, depth=36, experts=128)),
)  # fmt: skip
