"""Tables of rotary positions to which `rope_parameters` and its older spellings are moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TABLES = ("rope_parameters",)
SHARES = (0.5, 0.75)


_OLDER = ("linear", "dynamic", "yarn with mscale", "yarn with a factor of attention", "longrope beyond", "llama3")
"""Kinds of scaling that are tried under the older key."""


def kinds(frequencies: int) -> dict[str, dict[str, Any]]:
    """Name -> the keys of one kind of scaling; lists of factors have as many as there are `frequencies`."""
    short = [1.0 + 0.1 * i for i in range(frequencies)]
    long = [2.0 + 0.3 * i for i in range(frequencies)]
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    rope = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
    llama = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    return {
        "default": {"rope_type": "default"},
        "linear": {"rope_type": "linear", "factor": 3.0},
        "dynamic": {"rope_type": "dynamic", "factor": 3.0},
        "dynamic from 8": {"rope_type": "dynamic", "factor": 3.0, "original_max_position_embeddings": 8},
        "yarn": yarn,
        "yarn without its length": {"rope_type": "yarn", "factor": 4.0},
        "yarn with betas": {**yarn, "beta_fast": 4.0, "beta_slow": 0.5},
        "yarn with a factor of attention": {**yarn, "attention_factor": 1.4},
        "yarn with mscale": {**yarn, "mscale": 0.7, "mscale_all_dim": 1.3},
        "yarn with one mscale": {**yarn, "mscale": 0.7},
        "yarn with mscale_all_dim alone": {**yarn, "mscale_all_dim": 0.7},
        "yarn not cut": {**yarn, "truncate": False},
        "longrope": {**rope, "original_max_position_embeddings": 32, "factor": 2.0},
        "longrope beyond": {**rope, "original_max_position_embeddings": 8, "factor": 4.0},
        "longrope without a factor": {**rope, "original_max_position_embeddings": 8},
        "longrope with a factor of attention": {**rope, "original_max_position_embeddings": 8, "attention_factor": 1.4},
        "llama3": llama,
        "llama3 with others": {**llama, "factor": 2.0, "low_freq_factor": 2.0, "high_freq_factor": 8.0},
        "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.5},
        "something else": {"rope_type": "something-else"},
        "a key that is unknown": {"rope_type": "default", "frobnication": 3},
    }


def tables(key: str, base: Any, frequencies: int) -> Iterator[dict[str, Any]]:
    """Moves of the whole table: each kind of scaling, another theta, other shares; by type of layer where the base is."""
    by_type = {name: table for name, table in (base or {}).items() if isinstance(table, Mapping)}
    if not by_type:
        yield from ({key: move} for move in _moved(base or {}, frequencies))
        yield {key: None}
        yield {key: {"rope_type": "default", "rope_theta": 500.0}, "rope_theta": 70.0}
        return
    first, *others = by_type
    for move in _moved(by_type[first], frequencies):
        yield {key: {**base, first: move}}
    for other in others:
        for move in list(_moved(by_type[other], frequencies))[:8]:
            yield {key: {**base, other: move}}
    yield {key: {name: table for name, table in base.items() if name != first}}
    yield {key: {"rope_type": "default", "rope_theta": 500.0}}
    yield {key: None}


def _moved(table: Mapping[str, Any], frequencies: int) -> Iterator[dict[str, Any]]:
    theta = {"rope_theta": table.get("rope_theta") or 300.0}
    kept = {name: table[name] for name in ("partial_rotary_factor", "mrope_section", "mrope_interleaved") if name in table}
    yield {**table, "rope_type": table.get("rope_type", "default"), "rope_theta": 37.0}
    for share in SHARES:
        yield {**table, "rope_type": table.get("rope_type", "default"), **theta, "partial_rotary_factor": share}
    for kind in kinds(frequencies).values():
        yield {**theta, **kept, **kind}
    yield {"rope_theta": 37.0}
    yield {"rope_type": "default"}
    yield {**theta, "rope_type": "linear", "factor": 1.0}


def legacy(key: str, base: Any, frequencies: int) -> Iterator[dict[str, Any]]:
    """Moves of the older spellings, beside which no table stands."""
    away = {"rope_parameters": ...}
    if key != "rope_scaling":
        yield {key: 37.0, **away}
        yield {key: 500, **away}
        return
    every = kinds(frequencies)
    for i, name in enumerate(_OLDER):
        older = {("type" if key == "rope_type" else key): value for key, value in every[name].items()}
        yield {key: older, **away} if i % 2 else {key: every[name], "rope_theta": 37.0, **away}
    yield {key: {"rope_type": "linear", "factor": 2.0}}
