"""Rotary positions that differ by layer: tables per type of layer, or a theta per layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.places import FULL, SLIDING, layer_types
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.rope import SHARE, completed, from_table, rope_parameters, rotary, to_table, with_share
from anyformer.parts import Rotary

Tables = dict[str, dict[str, Any]]


def tables_by_type(config: Config, thetas: Mapping[str, float]) -> Tables:
    """The tables of sliding and of full layers; `rope_scaling` of older files is that of full layers alone."""
    tables = dict(config("rope_parameters", None, written_by_type) or {})
    refuse_others(config, tables, thetas)
    old, trained = {FULL: scaling_in_tables(config)}, config("max_position_embeddings", None, _scaled_from)
    by_type = {}
    for layer_type, theta in thetas.items():
        alone = Config({"rope_parameters": {**(tables.get(layer_type) or {}), **old.get(layer_type, {})}}, config.where)
        alone.assume(max_position_embeddings=trained)
        by_type[layer_type] = rope_parameters(alone, theta=theta)
    return by_type


def scaling_in_tables(config: Config) -> dict[str, Any]:
    """`rope_scaling` of older files; transformers adds it to a table of kind `default`, so that `type` has no effect there."""
    old: dict[str, Any] = config("rope_scaling", None) or {}
    if old.get("type", "default") != "default" and "rope_type" not in old:
        raise HuggingFaceError(
            f"{config.where}: rope_scaling.type = {old['type']!r} is not read by transformers here: call the key rope_type if "
            f"it is meant, and leave the table out if not"
        )
    return old


def _without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def shares_by_type(config: Config, usual: Mapping[str, Mapping[str, Any]], fraction: float = 1.0) -> dict[str, Rotary]:
    """Rotary positions of a share of each head by type of layer; `usual`: the tables where the key is absent."""
    share = {SHARE: 1.0}
    tables = config(
        "rope_parameters", None, lambda target: {**usual, **{k: share | v for k, v in written_by_type(target).items()}}
    )
    refuse_others(config, tables or {}, usual)
    longest = config("max_position_embeddings", None, _scaled_from)
    found = {}
    for kind, given in (tables or usual).items():
        if given is not None:
            table = completed({"rope_type": given.get("type", "default"), **_without(given, "type")}, longest, config.where)
            found[kind] = with_share(table, fraction if table["rope_type"] == "default" else 1.0)
    return found


def some_rotary_by_type(
    config: Config, kinds: Iterable[str], usual: Mapping[str, Mapping[str, Any] | None] | None = None
) -> dict[str, Rotary | None]:
    """The rotary positions of each of `kinds`, `local` or `full`, none where its table is null; `usual`: the tables where the
    key is absent."""
    given = config("rope_parameters", None, _tables_or_null) or usual or {}
    called = {"local": SLIDING, "full": FULL}
    absent = [called[kind] for kind in kinds if called[kind] not in given]
    if absent:
        raise HuggingFaceError(
            f"{config.where}: rope_parameters has nothing for {' and '.join(absent)}: give a table, or null for no positions"
        )
    tables = tables_by_type(config, dict.fromkeys((SLIDING, FULL), 10_000.0))
    return {kind: None if given[called[kind]] is None else from_table(tables[called[kind]]) for kind in kinds}


def _tables_or_null(target: Target) -> dict[str, dict[str, Any] | None]:
    """The table of each type of layer that there is, null where it has no rotary positions."""
    return dict.fromkeys(layer_types(target)) | written_by_type(target)


def rotary_by_layer(config: Config) -> tuple[list[str], dict[str, Rotary | None]]:
    """A name for the theta of each layer, and the rotary positions of each name: none where theta is 0 (Granite)."""
    usual, depth = rotary(config), config("num_hidden_layers")
    thetas = config("layer_rope_theta", None, _thetas) or [usual.theta] * depth
    if len(thetas) != depth:
        raise HuggingFaceError(f"{config.where}: layer_rope_theta has {len(thetas)} entries for {depth} layers")
    called = {theta: f"theta_{theta:g}".translate(_IN_NAMES) if theta else "nope" for theta in thetas}
    return [called[theta] for theta in thetas], {
        name: usual.but(theta=float(theta)) if theta else None for theta, name in called.items()
    }


_IN_NAMES = str.maketrans(".-", "__", "+")


def _thetas(target: Target) -> list[float]:
    return [0 if rotary is None else rotary.theta for rotary in target.each("attention.rotary")]


def refuse_others(config: Config, tables: Iterable[str], known: Iterable[str]) -> None:
    """Refuse tables for types of layers that the model type does not have."""
    strange = sorted(set(tables) - set(known))
    if strange:
        raise HuggingFaceError(f"{config.where}: rope_parameters should hold {' and '.join(known)}, not {', '.join(strange)}")


def written_by_type(target: Target) -> Tables:
    """The table of rotary settings of each type of layer."""
    layers = zip(target.each("attention.mask"), target.each("attention.rotary"), strict=True)
    return {SLIDING if mask.window else FULL: to_table(rotary) for mask, rotary in layers if rotary is not None}


def _scaled_from(target: Target) -> int:
    """The length beyond which dynamic rotary positions are scaled; transformers reads it outside their table."""
    for table in written_by_type(target).values():
        if table["rope_type"] == "dynamic":
            return int(table["original_max_position_embeddings"])
    raise MismatchError("no layer has dynamic rotary positions")
