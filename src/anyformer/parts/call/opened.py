"""A call of a model whose inner values somebody watches or replaces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.parts.norms.opened import ShowsInside


class Inquiry(Protocol):
    """What is asked of the values of a call, by their full paths."""

    def wants(self, path: str) -> bool:
        """Whether anybody asks for the value at this path."""

    def met(self, path: str, value: Tensor) -> Tensor:
        """The value at this path, with which the model goes on."""

    def enters(self, path: str) -> Tensor | None:
        """The value to go on from, if what stands before this path is left out."""


@dataclass(frozen=True)
class OpenedPart:
    """What is asked of a call, and the path of the part that is computed: `decoder.layer[3].attention`."""

    asked: Inquiry
    path: str

    def inside(self, name: str) -> OpenedPart:
        """The same for a part of this part."""
        return replace(self, path=f"{self.path}.{name}")

    def see(self, name: str, value: Tensor) -> Tensor:
        """The value of this name, with which the part goes on."""
        return self.asked.met(f"{self.path}.{name}", value)

    def wants(self, *names: str) -> bool:
        """Whether anybody asks for a value of one of these names."""
        return any(self.asked.wants(f"{self.path}.{name}") for name in names)


def check_whole(opened: OpenedPart | None, *divides: object) -> None:
    """Refuse to show values of a part that processes divide: none of them has the whole."""
    if opened is not None and any(each is not None for each in divides):
        raise InputError(
            f"{opened.path} is divided among processes, none of which has its whole values: watch and patch the model in one "
            f"process, loaded from its checkpoint without plan.mesh"
        )


def normed(norm: nn.Module, x: Tensor, opened: OpenedPart | None, name: str) -> Tensor:
    """norm(x), the norm being called `name`; what it computes on its way is seen as `name.scale`, `.normalized`, `.output`."""
    if opened is None or isinstance(norm, nn.Identity):
        y: Tensor = norm(x)
        return y
    inner = opened.inside(name)
    return inner.see("output", norm.opened(x, inner) if isinstance(norm, ShowsInside) else norm(x))


@dataclass(frozen=True, kw_only=True)
class Showing:
    """The base of what the parts of a call are told: whether their values are asked for."""

    opened: OpenedPart | None = None
    """What is watched and replaced of the part that is computed; None: nothing."""

    def see(self, name: str, value: Tensor) -> Tensor:
        """The value that the part calls `name`, with which it goes on: the same one, unless somebody replaces it."""
        return value if self.opened is None else self.opened.see(name, value)

    def see_rows(self, name: str, value_Z: Tensor, rows: torch.Size) -> Tensor:
        """The same of what the part has for B * T tokens side by side, and shows by row, (B, T, ...)."""
        return value_Z if self.opened is None else self.see(name, torch.unflatten(value_Z, 0, rows)).flatten(0, 1)

    def wants(self, *names: str) -> bool:
        """Whether anybody asks for a value that the part gives one of these names."""
        return self.opened is not None and self.opened.wants(*names)

    def inside(self, name: str) -> Self:
        """What a part of this part is told, under its name there."""
        return self if self.opened is None else replace(self, opened=self.opened.inside(name))

    def normed(self, norm: nn.Module, x: Tensor, name: str) -> Tensor:
        """norm(x), the norm being called `name` in the part."""
        return normed(norm, x, self.opened, name)
