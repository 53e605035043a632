"""Compressed attention by DeepSeek's keys: rotary positions of layers with a window alone, and of those with entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config, shown
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.rope import SHARE, completed, from_table, to_table
from anyformer.parts import Rotary

BRANCH = "compressed_attention"


def rotary_pair(config: Config) -> tuple[Rotary, Rotary]:
    """Of layers with a window alone, and of those with entries, which YaRN may stretch."""
    table, old = config("rope_parameters", None, _rope_tables), config("rope_scaling", None, nowhere)
    theta, of_entries = config("rope_theta", 10_000.0, nowhere), config("compress_rope_theta", 160_000.0, nowhere)
    share, longest = _share(config), config("max_position_embeddings", None)
    both = table if table is not None and {"main", "compress"} <= table.keys() else None
    if both is None:
        flat = _typed(table or old or {})
        if flat["rope_type"] == "yarn":  # the waves of the model are not scaled, whatever the factor
            flat.setdefault("attention_factor", 1.0)
        both = {"main": {"rope_type": "default", "rope_theta": theta}, "compress": {**flat, "rope_theta": of_entries}}
    made = []
    for name in ("main", "compress"):
        if not isinstance(both[name], Mapping):
            raise HuggingFaceError(
                f"{config.where}: rope_parameters.{name} should be a table of settings, got {shown(both[name])}"
            )
        own = completed(_typed(both[name]), longest, config.where)
        fields: dict[str, Any] = {"pairing": "adjacent", "place": "last", "rotate_in": "fp32"}
        made.append(from_table(own, unread=(SHARE,), fraction=float(own.get(SHARE, share)), **fields))
    return made[0], made[1]


def _typed(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table of settings without nulls, with the kind of scaling under its key of today."""
    own = {key: value for key, value in table.items() if value is not None}
    older = own.pop("type", None)
    return {**own, "rope_type": own.get("rope_type") or older or "default"}


def _share(config: Config) -> float:
    """The share of a head that rotates."""
    width = config("head_dim", 512, f"{BRANCH}.head_width")
    share, features = config(SHARE, None, f"{BRANCH}.rotary.fraction"), config("qk_rope_head_dim", None, nowhere)
    if share is None:
        return float(64 / 512 if features is None else features / width)
    if features is not None and int(width * share) != features:
        raise HuggingFaceError(
            f"{config.where}: {SHARE} = {share} of head_dim = {width} is {int(width * share)} features, and qk_rope_head_dim = "
            f"{features}"
        )
    return float(share)


def _rope_tables(target: Target) -> dict[str, Any]:
    """The tables of both kinds of layers; of one that the architecture lacks, the usual one."""
    parts = target.each(f"{BRANCH}.sublayer")
    usual = {"main": 10_000.0, "compress": 160_000.0}
    share = next((part.rotary.fraction for part in parts if part.rotary is not None), 1.0)
    tables: dict[str, Any] = {name: to_table(Rotary(theta=theta, fraction=share)) for name, theta in usual.items()}
    for part in reversed(parts):
        if part.rotary is None:
            raise MismatchError("a layer has no rotary positions")
        tables["main" if part.compressor is None else "compress"] = to_table(part.rotary)
    return {name: {SHARE: 1.0, **table} for name, table in tables.items()}
