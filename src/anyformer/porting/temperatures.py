"""Queries that grow with the position, as alternatives to be tried: strengths and spans by the numbers of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from anyformer.describe import DescriptionError, get
from anyformer.parts import LogTemperature, Rotary
from anyformer.porting.changes import Put
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint
from anyformer.porting.looking import blocks_in
from anyformer.porting.some_layers import PutLayers

_STRENGTHS = ("scal", "beta", "temper")
_SPANS = ("floor", "span", "original_max", "temper")
"""What is in the names of keys that may say how strong a temperature is, and after how many tokens it grows."""
_MOST = 4
_NO = object()


def temperatures(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """1 + strength log(1 + floor((t + shift) / span)) in every layer, and in those without rotary positions alone."""
    held = [(key, each) for key, each in _numbers(table) if each > 0]
    strengths = dict.fromkeys(float(each) for key, each in held if any(word in key for word in _STRENGTHS) and each <= 1)
    spans = dict.fromkeys(int(each) for key, each in held if any(word in key for word in _SPANS) and each == int(each))
    branches = {
        name
        for block in blocks_in(fit.architecture)
        for name, branch in block.branches.items()
        if _held(branch.sublayer, "temperature") is not _NO
    }
    unplaced = _without_rotary(fit)
    for strength, span, shift in product([*strengths][:_MOST], [*spans][:_MOST], (1, 0)):
        part = LogTemperature(strength=strength, span=span, shift=shift)
        words = f"queries grow by {strength:g} a logarithm of {span} tokens, shift {shift}"
        for branch in sorted(branches):
            path = f"{branch}.temperature"
            yield Hint(words, (Put(path, part),))
            if unplaced:
                yield Hint(f"{words}, without rotary positions", (PutLayers(unplaced, path, part),))


def _numbers(table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(key, number) of a table and of the tables in it."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value


def _held(sublayer: Any, field: str) -> Any:
    """What stands in a field or slot of a sublayer; `_NO` where it has no such place."""
    try:
        return get(sublayer, field)
    except DescriptionError:
        return _NO


def _without_rotary(fit: Fit) -> tuple[int, ...]:
    """The layers of the decoder that have no rotary positions, where others have."""
    stack = None if fit.architecture is None else fit.architecture.decoder
    if stack is None:
        return ()
    blocks = [stack.variants[name] for name in stack.layers]
    turned = [any(isinstance(_held(each.sublayer, "rotary"), Rotary) for each in block.branches.values()) for block in blocks]
    return tuple(at for at, turns in enumerate(turned) if not turns) if any(turned) else ()
