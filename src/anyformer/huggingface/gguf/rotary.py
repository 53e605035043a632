"""Rotary settings of a GGUF file, in Hugging Face's spelling."""

from __future__ import annotations

import math
from typing import Any

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufMetadata

FACTORS = "rope_freqs.weight"
"""The tensor of what each frequency is divided by: all that a file has of Llama 3's scaling."""
LLAMA3 = tuple(
    {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    for factor in (8.0, 32.0)
)
"""The settings of Llama 3.1, 3.3 and 3.2."""
NEAR = 1e-4
"""Largest relative difference between a stored factor and a computed one."""


def rotary_of(keys: GgufMetadata, width: int, theta: float = 10_000.0, *, whole: bool = True) -> dict[str, Any]:
    """`rope_parameters` of heads of this width; `theta` where no key says; `whole`: all of a head has to rotate."""
    if whole:
        keys.expect("rope.dimension_count", width)
    base = {"rope_theta": keys("rope.freq_base", theta)}
    if FACTORS in keys.shapes:
        return {**base, **_llama3(keys, width, base["rope_theta"])}
    kind = keys("rope.scaling.type", "none")
    keys.expect("rope.scaling.attn_factor", 1.0)
    keys.expect("rope.scaling.finetuned", False, True)
    keys.expect("rope.scaling.type", "none", "linear", "yarn")
    if kind == "none":
        return {"rope_type": "default", **base}
    table = {"rope_type": kind, **base, "factor": keys("rope.scaling.factor")}
    if kind == "yarn":
        table["original_max_position_embeddings"] = keys("rope.scaling.original_context_length")
    return table


def factors(scaling: dict[str, Any], width: int, theta: float) -> list[float]:
    """What each frequency is divided by in Llama 3.1: 1 for short waves, `factor` for long ones, between them in between."""
    length, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    found = []
    for i in range(width // 2):
        turns = length * theta ** (-2 * i / width) / (2 * math.pi)
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        found.append(1 / ((1 - smooth) / factor + smooth))
    return found


def _llama3(keys: GgufMetadata, width: int, theta: float) -> dict[str, Any]:
    """The settings from which the stored factors follow."""
    stored = keys.values(FACTORS)
    for scaling in LLAMA3:
        computed = factors(scaling, width, theta)
        if len(stored) == len(computed) and all(
            abs(mine - theirs) <= NEAR * theirs for mine, theirs in zip(stored, computed, strict=True)
        ):
            return scaling
    raise HuggingFaceError(
        f"{keys.where}: {FACTORS} follows from none of the settings of Llama 3.1, 3.2 or 3.3; take the checkpoint in Hugging "
        f"Face's layout"
    )
