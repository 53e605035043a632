"""Keys that mean the same in every family, where the nearest one does not read them: their values at their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.describe import DescriptionError, get
from anyformer.huggingface.places import FULL, PLACES, SLIDING
from anyformer.model import Architecture
from anyformer.porting.changes import Put
from anyformer.porting.explaining import Fit, explained
from anyformer.porting.hint import Hint
from anyformer.porting.looking import blocks_in, heads_in
from anyformer.porting.tensors import FileModule
from anyformer.porting.window_layers import WindowLayers


def keyed(fit: Fit, table: Mapping[str, Any], modules: Mapping[str, FileModule]) -> tuple[Fit, list[str]]:
    """The fit with the values of keys that the base does not read at their places, where as much is explained; the reasons."""
    reasons = []
    for hint in _hints(fit, table):
        made = explained(hint.applied(fit.derivation), table, modules)
        if made.architecture is not None and made.unexplained <= fit.unexplained:
            fit = made
            reasons.append(hint.why)
    return fit, reasons


def _hints(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    assert fit.architecture is not None
    for key in (key for key in fit.unread if key not in fit.instead and _is_number(table.get(key))):
        for path, value in _places(key, table[key]):
            if _differs(fit.architecture, path, value):
                yield Hint(f"{key} = {table[key]}, which is {path} in every family that has it", (Put(path, value),))
    size, types = table.get("sliding_window"), table.get("layer_types")
    if isinstance(size, int) and not isinstance(size, bool) and isinstance(types, list) and {*types} == {FULL, SLIDING}:
        layers = tuple(at for at, kind in enumerate(types) if kind == SLIDING)
        if not any(heads.mask.window for heads in heads_in(fit.architecture)):
            yield Hint(f"windows of {size} tokens in {len(layers)} layers, by layer_types", (WindowLayers(layers, size),))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _places(key: str, value: float) -> Iterator[tuple[str, Any]]:
    """(path, value) of a key that is a factor or a bound."""
    if key == "query_pre_attn_scalar":
        yield "attention.scale", float(value) ** -0.5
    elif key == "attention_multiplier":
        yield "attention.scale", float(value)
    elif key == "residual_multiplier":
        yield from ((f"{branch}.multiplier", float(value)) for branch in ("attention", "feedforward", "experts"))
    elif key == "swiglu_limit":
        yield from ((f"{branch}.clamp", float(value)) for branch in ("feedforward", "experts"))
    elif isinstance(place := PLACES.get(key), str) and place.rpartition(".")[2] in ("scale", "softcap"):
        yield place, float(value)


def _differs(architecture: Architecture, path: str, value: Any) -> bool:
    """Whether something stands at the path, and is another value."""
    whole = path.partition(".")[0] in type(architecture).model_fields
    for holder in [architecture] if whole else blocks_in(architecture):
        try:
            if get(holder, path) != value:
                return True
        except DescriptionError:
            continue
    return False
