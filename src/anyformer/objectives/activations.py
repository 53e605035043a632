"""What passes at paths of a model that does not learn, and what it computes with something else there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from typing import TypeVar

from torch import Tensor

from anyformer.describe import InputError
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.model.value_paths import named, watchable

R = TypeVar("R")
LAYER = re.compile(r"layer\[-?\d+\]")


def vector_at(architecture: Architecture, path: str) -> int:
    """The numbers of the vector that every position has at a path. Raises `ValueError` where there is none."""
    found, *others = dict.fromkeys(named(architecture, [path]))
    if others:
        raise ValueError(f"{path}: names {1 + len(others)} values: give the path of one, as {found}")
    value = watchable(architecture)[found]
    numbers = [value.sizes.get(letter) for letter in value.letters[2:]]
    if value.letters[:2] != "BT" or not numbers or None in numbers:
        raise ValueError(
            f"{path}: has the shape {value.shape}, and no vector of a fixed size at every position: choose a path whose shape "
            "begins with (B, T"
        )
    return prod(each for each in numbers if each is not None)


def place_of(architecture: Architecture, path: str) -> str:
    """The path, or in a model that memory is foretold from, which has fewer layers, the last one like it."""
    try:
        (found,) = named(architecture, [path])
    except InputError:
        found = named(architecture, [LAYER.sub("layer[*]", path)])[-1]
    return found


def seen(model: Transformer, paths: Sequence[str], compute: Callable[[], object]) -> list[Tensor]:
    """(B, T, I) fp32: what passes at each of `paths` while the model computes, which ends behind the last of them."""
    order = list(watchable(model.architecture))
    paths = [place_of(model.architecture, path) for path in paths]
    last = max(paths, key=order.index)
    with model.watch(*dict.fromkeys(paths)) as found, model.stop_at(last) as stopped:
        compute()
    values = [stopped.value if path == last else found[path] for path in paths]
    return [value.flatten(2).float() for value in values]


def patched(model: Transformer, values: Mapping[str, Callable[[Tensor], Tensor]], compute: Callable[[], R]) -> R:
    """What the model computes where each of some paths has what a function makes of its value."""
    with ExitStack() as stack:
        for path, make in values.items():
            stack.enter_context(model.patch(path, make))
        return compute()
