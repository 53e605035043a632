"""Rotary settings, both ways: Hugging Face's `rope_parameters`, and keys and tensors of llama.cpp."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from anyformer.huggingface.config import Config, shown
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Words

FACTORS = "rope_freqs.weight"
"""The tensor of what each frequency is divided by: all that a file has of Llama 3's scaling."""
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
"""The tensors of LongRoPE: divisors of frequencies beyond the original length, and up to it."""
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
PERIOD = "rope.scaling.original_context_length"
YARN = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
"""The settings of YaRN that are written into llama.cpp's graphs."""


@dataclass(frozen=True)
class RotaryLine:
    """`rope_parameters` of all layers. `kinds`: those that the graph of the type computes.

    `partial`: whether a share of a head may rotate. `swa`: whether layers with a window have settings of their own, of the
    default type, under `rope.freq_base_swa`; `usual`: the theta of absent keys, in full and in windows.
    """

    kinds: tuple[str, ...] = ("default", "linear", "yarn")
    partial: bool = False
    swa: bool = False
    usual: tuple[float, float] = (10_000.0, 10_000.0)
    beside: bool = False
    """Whether the configuration has the original length of LongRoPE beside the settings."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        width = keys("attention.key_length", table["hidden_size"] // table["num_attention_heads"])
        settings = rotary_of(keys, width, self)
        if self.swa:
            near = {"rope_type": "default", "rope_theta": keys("rope.freq_base_swa", self.usual[1])}
            table["rope_parameters"] = {"full_attention": settings, "sliding_attention": near}
            return
        if self.beside and settings["rope_type"] == "longrope":
            table["original_max_position_embeddings"] = settings.pop("original_max_position_embeddings")
        table["rope_parameters"] = settings

    def write(self, words: Config, keys: GgufKeys) -> None:
        settings = words("rope_parameters")
        if self.swa:
            self._near(settings["sliding_attention"], words, keys)
            settings = settings["full_attention"]
        width = keys("attention.key_length")
        left = dict(settings)
        share = left.pop("partial_rotary_factor", 1.0)
        if share != 1.0 and not self.partial:
            raise _refused(words, "partial_rotary_factor", share, "1.0")
        rotated = int(width * share)
        keys.put("rope.dimension_count", rotated)
        self.put_scaling(left, rotated, words, keys)

    def _near(self, settings: Mapping[str, Any], words: Config, keys: GgufKeys) -> None:
        if settings.keys() - {"rope_type", "rope_theta"} or settings["rope_type"] != "default":
            raise _refused(words, "sliding_attention", dict(settings), "plain, without scaling")
        keys.put("rope.freq_base_swa", float(settings["rope_theta"]))

    def put_scaling(self, left: dict[str, Any], width: int, words: Config, keys: GgufKeys) -> None:
        """The theta and the scaling of what rotates; refuses a setting that no key says."""
        keys.put("rope.freq_base", float(left.pop("rope_theta")))
        kind = left.pop("rope_type")
        if kind not in self.kinds:
            raise _refused(words, "rope_type", kind, " or ".join(map(repr, self.kinds)))
        if kind == "linear":
            keys.put("rope.scaling.type", "linear")
            keys.put("rope.scaling.factor", float(left.pop("factor")))
        if kind == "yarn":
            _yarn(left, words, keys)
        if kind == "llama3":
            scaling = {name: left.pop(name) for name in LLAMA3[0] if name in left}
            keys.tensors[FACTORS] = torch.tensor(factors(scaling, width, keys("rope.freq_base")))
            keys.put(PERIOD, int(scaling["original_max_position_embeddings"]))
        if kind == "longrope":
            _longrope(left, words, keys)
        if left:
            raise _refused(words, *next(iter(left.items())), "absent")


@dataclass(frozen=True)
class OriginalLength:
    """The length beyond which LongRoPE's long divisors hold, beside the settings; absent from a file: its longest text."""

    word: str = "original_max_position_embeddings"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = keys(PERIOD, table["max_position_embeddings"])

    def write(self, words: Config, keys: GgufKeys) -> None:
        keys.put(PERIOD, int(words(self.word)))


def _yarn(left: dict[str, Any], words: Config, keys: GgufKeys) -> None:
    factor, usual = float(left.pop("factor")), {name: left.pop(name, value) for name, value in YARN.items()}
    for name, value in YARN.items():
        if usual[name] != value:
            raise _refused(words, name, usual[name], shown(value))
    keys.put("rope.scaling.type", "yarn")
    keys.put("rope.scaling.factor", factor)
    keys.put(PERIOD, int(left.pop("original_max_position_embeddings")))
    if (attention := left.pop("attention_factor", None)) is not None:
        keys.put("rope.scaling.attn_factor", float(attention / (0.1 * math.log(factor) + 1)))


def _longrope(left: dict[str, Any], words: Config, keys: GgufKeys) -> None:
    keys.tensors[LONG] = torch.tensor([float(x) for x in left.pop("long_factor")])
    keys.tensors[SHORT] = torch.tensor([float(x) for x in left.pop("short_factor")])
    original = left.pop("original_max_position_embeddings", None) or words("original_max_position_embeddings")
    length, factor = keys("context_length"), left.pop("factor", None)
    grown = factor or length / original
    attention = left.pop("attention_factor", None)
    if attention is None:
        attention = 1.0 if grown <= 1 else math.sqrt(1 + math.log(grown) / math.log(original))
    keys.put("rope.scaling.type", "longrope")
    keys.put(PERIOD, int(original))
    keys.put("rope.scaling.attn_factor", float(attention))


def _refused(words: Config, name: str, value: Any, expected: str) -> HuggingFaceError:
    return HuggingFaceError(
        f"{words.where}: rope_parameters.{name} = {shown(value)} is not in llama.cpp's graph of {words.model_type}, only "
        f"{expected}"
    )


def rotary_of(keys: GgufMetadata, width: int, line: RotaryLine) -> dict[str, Any]:
    """`rope_parameters` of heads of this width."""
    if not line.partial:
        keys.expect("rope.dimension_count", width)
    rotated = keys("rope.dimension_count", width)
    base: dict[str, Any] = {"rope_theta": keys("rope.freq_base", line.usual[0])}
    if rotated != width:
        base["partial_rotary_factor"] = rotated / width
    keys.expect("rope.scaling.finetuned", False, True)
    keys.expect("rope.scaling.yarn_beta_fast", YARN["beta_fast"])
    keys.expect("rope.scaling.yarn_beta_slow", YARN["beta_slow"])
    if FACTORS in keys.shapes:
        return {**base, **_llama3(keys, rotated, base["rope_theta"])}
    kind = keys("rope.scaling.type", "longrope" if LONG in keys.shapes else "none")
    keys.expect("rope.scaling.type", "none", *(kind for kind in line.kinds if kind not in ("default", "llama3")))
    if kind == "longrope":
        return {**base, **_read_longrope(keys)}
    if kind != "yarn":
        keys.expect("rope.scaling.attn_factor", 1.0)
    if kind == "none":
        keys(PERIOD, None)
        return {"rope_type": "default", **base}
    table = {"rope_type": kind, **base, "factor": keys("rope.scaling.factor")}
    if kind == "yarn":
        table["original_max_position_embeddings"] = keys(PERIOD)
        if (share := keys("rope.scaling.attn_factor", 1.0)) != 1.0:
            table["attention_factor"] = share * (0.1 * math.log(table["factor"]) + 1)
    return table


def _read_longrope(keys: GgufMetadata) -> dict[str, Any]:
    original, length = keys(PERIOD), keys("context_length")
    usual = 1.0 if length <= original else math.sqrt(1 + math.log(length / original) / math.log(original))
    attention = keys("rope.scaling.attn_factor", 1.0)
    return {
        "rope_type": "longrope",
        "long_factor": _plain(keys.values(LONG)),
        "short_factor": _plain(keys.values(SHORT)),
        "original_max_position_embeddings": original,
        "attention_factor": usual if abs(attention - usual) <= NEAR * usual else attention,
    }


def _plain(numbers: list[float]) -> list[float]:
    """Numbers of 32 bits as the shortest decimals that are those numbers."""
    import numpy as np

    return [float(str(np.float32(x))) for x in numbers]


def factors(scaling: Mapping[str, Any], width: int, theta: float) -> list[float]:
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
    stored, length = keys.values(FACTORS), keys(PERIOD, 8192)
    told = {**LLAMA3[0], "factor": max(stored), "original_max_position_embeddings": length}
    for scaling in (told, *LLAMA3):
        computed = factors(scaling, width, theta)
        if len(stored) == len(computed) and all(
            abs(mine - theirs) <= NEAR * theirs for mine, theirs in zip(stored, computed, strict=True)
        ):
            return {**scaling, "factor": float(f"{scaling['factor']:.6g}")}
    raise HuggingFaceError(
        f"{keys.where}: {FACTORS} follows from none of the settings of Llama 3.1, 3.2 or 3.3; take the checkpoint in Hugging "
        f"Face's layout"
    )
