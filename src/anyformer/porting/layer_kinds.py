"""Which layers are what, as alternatives to be tried: positions and windows in some of them, by lists and periods of keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from anyformer.parts import Causal
from anyformer.porting.changes import RotaryInWindows
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint
from anyformer.porting.looking import heads_in, rotaries_in
from anyformer.porting.some_layers import PutLayers
from anyformer.porting.window_layers import WindowLayers

_PERIODS = ("interval", "pattern", "period", "every", "freq", "stride")
"""What is in the names of keys that say that every so manyth layer is another."""


def layers(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """Rotary positions in windows alone; none, or windows, in the layers that a key tells apart."""
    kinds = {bool(heads.mask.window) for heads in heads_in(fit.architecture)}
    if len(kinds) > 1:
        yield Hint("rotary positions in layers with a window alone", (RotaryInWindows(),))
    if fit.architecture is None or fit.architecture.decoder is None:
        return
    said = table.get("sliding_window")
    size = said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None
    turned = any(branch == "attention" for branch, _ in rotaries_in(fit.architecture))
    for some, key in _told_apart(table, len(fit.architecture.decoder.layers)).items():
        words = f"layers {', '.join(map(str, some))}, by {key}"
        if turned:
            yield Hint(f"no rotary positions in {words}", (PutLayers(some, "attention.rotary", None),))
        if size is not None and kinds == {False}:
            yield Hint(f"windows of {size} tokens in {words}", (WindowLayers(some, size),))
        if kinds == {True}:
            yield Hint(f"no window in {words}", (PutLayers(some, "attention.mask", Causal()),))


def _told_apart(table: Mapping[str, Any], depth: int) -> dict[tuple[int, ...], str]:
    """Some of the layers, but not all -> the first key that tells them apart: they have one value in a list of a value per
    layer, or their numbers stand in a list, or they are every so manyth."""
    found: dict[tuple[int, ...], str] = {}
    for key, value in table.items():
        for some in _sets(key, value, depth):
            if 0 < len(some) < depth:
                found.setdefault(some, key)
    return found


def _sets(key: str, value: Any, depth: int) -> Iterator[tuple[int, ...]]:
    if isinstance(value, list) and len(value) == depth and all(isinstance(each, Hashable) for each in value):
        for kind in dict.fromkeys(value):
            yield tuple(at for at, each in enumerate(value) if each == kind)
    elif isinstance(value, list) and value and all(type(each) is int and 0 <= each < depth for each in value):
        yield tuple(sorted(set(value)))
        yield tuple(at for at in range(depth) if at not in value)
    elif type(value) is int and 1 < value <= depth and any(word in key for word in _PERIODS):
        for rest in (value - 1, 0):
            yield tuple(at for at in range(depth) if at % value == rest)
            yield tuple(at for at in range(depth) if at % value != rest)
