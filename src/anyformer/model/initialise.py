"""How a described module comes to its values: built on the meta device, then filled by the rules of its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import nn

from anyformer.operations import Weight
from anyformer.parts.initialisation import Initialisation


class Described(nn.Module):
    """A module that knows what its description declared."""

    def __repr__(self) -> str:
        """As of any module, without what does nothing: optional parts that are absent, and dropout of a rate of 0."""
        lines = super().__repr__().splitlines()
        return "\n".join(line for line in lines if not line.endswith((": Identity()", "(rate=0.0)")))

    @property
    def declared(self) -> Mapping[str, Weight]:
        """Every weight by its parameter's name."""
        raise NotImplementedError

    @property
    def initialisation(self) -> Initialisation:
        """The rules by which they start."""
        raise NotImplementedError


M = TypeVar("M", bound=Described)


def assemble(make: Callable[[], M], device: torch.device | str, dtype: torch.dtype, seed: int) -> M:
    """What `make` makes, initialised by its own rules from `seed`; on `device="meta"` without values."""
    with torch.device("meta"):
        module = make()
    module.to(dtype)
    return module if torch.device(device).type == "meta" else materialise(module, device, seed)


def materialise(module: M, device: torch.device | str, seed: int) -> M:
    """Give a module on the meta device its values, the same on every device and in any order."""
    module.to_empty(device=device)
    declared, rules = module.declared, module.initialisation
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(rules.fill(declared[name], name, seed))
    return module
