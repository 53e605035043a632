"""The operations of autograd by name, and the tensors in the inputs of a layer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from torch import Tensor

_GENERATED = re.compile(r"GeneratedBackwardFor_[a-z]+_(\w+)_default\w*")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in the inputs of a layer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)
    elif is_dataclass(value):
        yield from tensors([getattr(value, field.name) for field in fields(value)])


OF_A_WEIGHT = {"ToCopyBackward0", "TBackward0", "TransposeBackward0", "ExpandBackward0", "ViewBackward0", "UnsqueezeBackward0"}
"""Operations between a weight and the operation that reads it."""


@cache
def saved_by(kind: Any) -> tuple[str, ...]:
    """The attributes of an autograd operation that hold its saved tensors."""
    return tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")


def word(name: str) -> str:
    """The name of an autograd operation: `MulBackward0` -> `mul`."""
    if generated := _GENERATED.match(name):
        return generated[1]
    return _CAPITAL.sub("_", name.removesuffix("0").removesuffix("Backward").removeprefix("_")).lower()
