"""A composite as a family: its text model, read from the composite's configuration and under the composite's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from anyformer.describe import change_all
from anyformer.huggingface.composite_row import Composite
from anyformer.huggingface.composite_texts import COMPOSITE_TEXTS, TextType
from anyformer.huggingface.composites import BESIDE, OUTSIDE
from anyformer.huggingface.config import FEW_BITS, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.model import Architecture

_SECTIONS = ("mrope_section", "mrope_interleaved", "xdrope_section")
_ONE_AXIS: Mapping[str, Any] = {}
_PLAIN = {"mrope": "default", "xdrope": "dynamic"}
"""Type of rotary positions in sections -> the one whose frequencies these are."""
_TABLES = ("rope_parameters", "rope_scaling")
_TIED = "tie_word_embeddings"


def text_family(
    composite: Composite, config: Config, family: Callable[[str], Family], *, axes: Mapping[str, Any] = _ONE_AXIS
) -> Family:
    """The composite around the text model that a configuration names; `family`: of a model type.

    `axes`: what its table of rotary positions says of several axes where it names none, which only images need; by default it
    has one axis.
    """
    table, _ = text_table(composite, config)
    named = str(table.get("model_type", composite.text))
    own_type = COMPOSITE_TEXTS.get(named, TextType(named))
    try:
        text = family(own_type.family)
    except HuggingFaceError as error:
        raise HuggingFaceError(f"{config.where}: the text model of {composite.model_type}: {error}") from None

    def read(config: Config) -> Architecture:
        return _read(composite, own_type, text, config, axes)

    return replace(
        text,
        model_type=composite.model_type,
        read=read,
        default_class=composite.default_class,
        text=text,
        text_name=composite.names_of(table),
        text_path=(*composite.path[:-1], _last(composite, _around(composite, config))),
    )


def _read(composite: Composite, own_type: TextType, text: Family, config: Config, axes: Mapping[str, Any]) -> Architecture:
    """The architecture of the text model; every key of both tables is read, known to change nothing of text, or refused."""
    table, nested = text_table(composite, config)
    config.expect_all(**composite.only)
    plain = {
        composite.keys.get(key, key): value
        for key, value in _sectioned(table, axes).items()
        if key not in FEW_BITS and not composite.is_outside(key)
    }
    tied = _around(composite, config).get(_TIED, composite.tied)
    if tied is not None:
        plain[_TIED] = tied
    plain |= {"model_type": text.model_type, "architectures": [composite.headless or text.default_class]}
    inner = Config(plain, f"{config.where}: {'.'.join(composite.path)}" if nested else config.where)
    inner.expect_all(**composite.said)
    inner = Config({key: value for key, value in plain.items() if key not in composite.said}, inner.where)
    inner.assume(**composite.absent)
    inner.assume(**own_type.absent)
    if own_type.implied:
        inner.assume(head_dim=inner("hidden_size") // inner("num_attention_heads"))
    if own_type.shared_out:
        width, heads = inner("hidden_size"), inner("num_attention_heads")
        why = f"hidden_size / num_attention_heads = {width} / {heads}: heads share out the width whatever head_dim says"
        inner.expect("head_dim", width // heads, why=why)
    inner.expect_all(**own_type.only)
    with inner.naming():
        architecture = text.read(inner)
    inner.finish((*text.inert, *OUTSIDE))
    towers = tuple(name for name in config.written if name.endswith("_config") or composite.is_outside(name))
    config.finish((*OUTSIDE, *towers, *BESIDE) if nested else (*config.written,))
    changes = composite.changes(architecture) if callable(composite.changes) else composite.changes
    return change_all(architecture, changes) if changes else architecture


def text_table(composite: Composite, config: Config) -> tuple[dict[str, Any], bool]:
    """The text model's keys, and whether they stand in a table of their own rather than beside the composite's."""
    around = _around(composite, config)
    last = _last(composite, around)
    if around.get(last) is not None:
        return dict(_table(around, last, config)), True
    if composite.flat:
        beside = {name: value for name, value in around.items() if not name.endswith("_config")}
        return {name: value for name, value in beside.items() if name != "model_type"}, False
    raise HuggingFaceError(f"{config.where}: {'.'.join(composite.path)} is missing, the table of the text model")


def _last(composite: Composite, around: Mapping[str, Any]) -> str:
    """The key of the text model's table in the one around it."""
    last, older = composite.path[-1], composite.older_key
    return older if older and around.get(last) is None and around.get(older) is not None else last


def _around(composite: Composite, config: Config) -> Mapping[str, Any]:
    """The table around the text model's."""
    table: Mapping[str, Any] = config.written
    for key in composite.path[:-1]:
        table = _table(table, key, config)
    return table


def _table(table: Mapping[str, Any], key: str, config: Config) -> Mapping[str, Any]:
    inside = table.get(key)
    if not isinstance(inside, Mapping):
        raise config.refused(key, inside, "a table of keys")
    return inside


def _sectioned(table: dict[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with rotary positions in sections for time, height and width (M-RoPE), as `axes` by default; else without.

    A token of text has one position in all three, so that every section turns by the same angle: "for textual inputs, these
    components utilize identical position IDs, making M-RoPE functionally equivalent to 1D-RoPE" (Qwen2-VL, arXiv 2409.12191,
    section 2.1). It holds for sections that follow one another and for those that alternate (Qwen3-VL), and for any share of a
    head, since sections choose among positions and leave frequencies in place.
    """
    plain = dict(table)
    for name in _TABLES:
        rope = plain.get(name)
        if isinstance(rope, Mapping) and any(key in rope for key in _SECTIONS):
            kept = {key: value for key, value in rope.items() if key not in _SECTIONS or axes}
            kept |= {key: _PLAIN[kept[key]] for key in ("type", "rope_type") if kept.get(key) in _PLAIN}
            plain[name] = kept if set(kept) - {"type", "rope_type"} or name == "rope_parameters" else None
    if axes:
        name = next((name for name in _TABLES if isinstance(plain.get(name), Mapping)), "rope_scaling")
        # Whether sections alternate is a matter of the class, which reads no key of it.
        plain[name] = {**axes, **(plain.get(name) or {}), _SECTIONS[1]: axes.get(_SECTIONS[1])}
    return plain
