"""Inkling 2: attention residuals, filters over keys, values and branches, and layers that are computed several times."""

from __future__ import annotations

from typing import Any

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named, change_all
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    ClippedRelativeLogits,
    Embedding,
    Experts,
    Gate,
    Head,
    Initialisation,
    LateTemperature,
    LengthClip,
    LoopedResiduals,
    Normal,
    Renormalise,
    ResidualConvolution,
    RMSNorm,
    Router,
    ScoreCorrectionBias,
    SideConvolution,
    SideInputs,
    SoftCaps,
    Stack,
    TokenSink,
    TopK,
    ValueNorm,
    Window,
    pre_norm,
)

NORM = RMSNorm(eps=1e-6, cast="after_gain")
BARE = RMSNorm(eps=1e-6, gain="none")


def inkling_2_mini() -> Architecture:
    """Thinking Machines 2026: 6 layers, then 12 three times with messages from pass to pass, then 6; its text model."""
    width, rule = 2304, Normal(std=0.02)
    once = {"local": _layer("local", looped=False), "full": _layer("full", looped=False)}
    inner = {f"looped_{i}": _layer("full" if i % 6 == 5 else "local", looped=True) for i in range(6, 18)}
    return Architecture(
        width=width,
        embedding=Embedding(vocab=201_024),
        decoder=Stack(
            variants=Named({**once, **inner}),
            order=f"local*5 full ({' '.join(inner)})*3 local*5 full",
            shared_weights=tuple(inner),
            input_norm=NORM,
            final_norm=NORM,
            streams=LoopedResiduals(
                block=12, before=1, looped=2, passes=3, count=7, norm=BARE, values="normed", scale=width**-0.5
            ),
        ),
        head=Head(outputs=200_058, softcap=30.0),
        initialisation=Initialisation(matrix=rule, embedding=rule),
    )


def _layer(kind: str, *, looped: bool) -> Block:
    """A layer in a window or over all; in full ones, and in the loop, queries, keys and values have inputs of their own."""
    late = LateTemperature(strength=0.1, floor=8192) if kind == "full" else None
    more: dict[str, Any] = {} if late is None else {"temperature": late}
    changes: dict[str, Any] = {
        f"{name}.residual_convolution": ResidualConvolution(kernel=4) for name in ("attention", "experts")
    }
    if kind == "full" or looped:
        more["side_inputs"] = SideInputs(norm=NORM) if kind == "full" else SideInputs(norm=NORM, depth="gated", norms="shared")
        changes["attention.norm_before"] = None
    attention = Attention(
        heads=24,
        kv_heads=8,
        head_width=128,
        mask=Causal() if kind == "full" else Window(size=1024),
        weigh=TokenSink(),
    ).but(
        length_clip=LengthClip(bound=22.627416997969522),
        side_convolution=SideConvolution(kernel=4, taps="token" if kind == "full" else "static"),
        value_norm=ValueNorm(norm=BARE),
        gate=Gate(),
        score_bias=ClippedRelativeLogits(features=16, extent=1024, bound=8.0, temperature=late),
        **more,
    )
    router = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias()), renormalise=Renormalise(), scale=8.0)
    experts = Experts(experts=128, chosen=8, width=1152, router=router, activation="sigmoid", caps=SoftCaps())
    return change_all(pre_norm(NORM, attention, experts), changes)


ENTRIES = (
    Entry("inkling-2-mini", 2026, "the text model: 12 of 24 layers computed three times, with messages from pass to pass",
          "released configuration Inkling-2-Mini; transformers 5.24.0, Inkling2LoopTextConfig", inkling_2_mini),
)  # fmt: skip
