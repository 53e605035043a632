"""What passes at paths of a model that does not learn, and what it computes with something else there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model.transformer import Transformer

R = TypeVar("R")


def seen(model: Transformer, paths: Sequence[str], compute: Callable[[], object]) -> list[Tensor]:
    """What passes at each of `paths` while the model computes."""
    found: dict[str, Tensor] = {}

    def keep(path: str, module: nn.Module, given: object, value: Tensor) -> None:
        found[path] = value

    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(_at(model, path).register_forward_hook(partial(keep, path)))
        compute()
    return [found[path] for path in paths]


def patched(model: Transformer, values: Mapping[str, Callable[[Tensor], Tensor]], compute: Callable[[], R]) -> R:
    """What the model computes where each of some paths has what a function makes of its value."""

    def put(make: Callable[[Tensor], Tensor], module: nn.Module, given: object, value: Tensor) -> Tensor:
        return make(value)

    with ExitStack() as stack:
        for path, make in values.items():
            stack.enter_context(_at(model, path).register_forward_hook(partial(put, make)))
        return compute()


def _at(model: Transformer, path: str) -> nn.Module:
    name = path.removesuffix(".output").replace(".layer[", ".layers.").replace("]", "")
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise UserError(f"{path}: the source has no such place") from None


def vectors(value_BT: Tensor, path: str) -> Tensor:
    """(B, T, I) fp32: a value as vectors of positions, whatever dimensions they have."""
    if value_BT.dim() < 3:
        raise UserError(f"{path}: has the shape {tuple(value_BT.shape)}, and no vector at every position")
    return value_BT.flatten(2).to(torch.float32)
