"""Modules built on the meta device, then given their values by the rules of their description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from anyformer.model.divided import extent_of, local
from anyformer.operations import Weight
from anyformer.parts.initialisation import Initialisation


class Described(nn.Module):
    """A module with the weights that its description declares, and the rules for their values."""

    own_rules: Mapping[str, Initialisation] = MappingProxyType({})
    """Rules of weights that do not begin by those of the description, as an adapter's, by name."""

    def __repr__(self) -> str:
        """The usual tree of modules, without absent optional parts and dropout of rate 0."""
        lines = super().__repr__().splitlines()
        return "\n".join(line for line in lines if not line.endswith((": Identity()", "(rate=0.0)")))

    @property
    def declared(self) -> Mapping[str, Weight]:
        """Every declared weight by the name of its parameter."""
        raise NotImplementedError

    @property
    def initialisation(self) -> Initialisation:
        """The rules of the initial values."""
        raise NotImplementedError


M = TypeVar("M", bound=Described)


def assemble(make: Callable[[], M], device: torch.device | str, dtype: torch.dtype, seed: int) -> M:
    """The module made by `make`, initialised by its own rules from `seed`; on `device="meta"` without values."""
    with on_meta():
        module = make()
    return module.to(dtype) if torch.device(device).type == "meta" else materialise(module, device, seed, dtype)


@contextmanager
def on_meta() -> Iterator[None]:
    """Modules that are made within have no values: whoever makes them gives them all of theirs."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Leaves out the values that torch's modules draw for themselves: their descriptions give them others, and to draw on the
    meta device takes longer than all else in a linear map."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DRAWING:
            return kwargs["tensor"]
        return func(*args, **kwargs or {})


_DRAWING = {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_}
"""What a mode sees of `torch.nn.init`: the whole call, its tensor by name."""


@torch.no_grad()
def materialise(module: M, device: torch.device | str, seed: int, dtype: torch.dtype | None = None) -> M:
    """Give a module on the meta device its values, which are the same on every device, in every division among processes;
    with a `dtype` its real numbers become those.

    Of a divided weight a process keeps its part, and draws no more than `Initialisation.version` makes it draw.
    """
    module._apply(partial(_without_values, device=device, dtype=dtype))  # type: ignore[no-untyped-call]
    declared, rules = module.declared, module.initialisation
    for name, parameter in module.named_parameters():
        rule = module.own_rules.get(name, rules)
        local(parameter).copy_(rule.fill(declared[name], name, seed, extent_of(parameter)))
    return module


def _without_values(x: Tensor, device: torch.device | str, dtype: torch.dtype | None) -> Tensor:
    """As `Module.to_empty` does: an `empty_like` of a tensor on the meta device imports sympy, for half a second."""
    of = dtype if dtype is not None and x.is_floating_point() else x.dtype
    if type(x) in (Tensor, nn.Parameter):
        return torch.empty_strided(x.size(), x.stride(), dtype=of, device=device)
    return torch.empty_like(x, dtype=of, device=device)
