"""Where in a model something is declared."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["module", "exit", "layer", "branch", "last", "sublayer", "part"]
"""What holds what: the model has modules (`embedding`, `decoder`) and an exit (`head`); a stack has layers, and parts before
(`branch`) and after them (`last`); a layer has branches, and norms and gains beside them; a branch has one sublayer; whatever
a sublayer holds are its parts."""


@dataclass(frozen=True)
class Address:
    """Where in a model something is declared: `decoder`, layer `3`, branch `attention`, part `query`."""

    module: str = ""
    """Of the model: `embedding`, `encoder`, `decoder`, `head`."""
    layer: str | None = None
    """The number of a layer, or the variant of all layers that are priced as one; None outside the layers of a stack."""
    branch: str | None = None
    """A branch of a layer or what stands beside it (`norm_after`), or what a stack holds beside its layers (`final_norm`)."""
    sublayer: bool = False
    """Whether it lies in the sublayer of a branch: behind the norm before it and before the norm after it."""
    part: tuple[str, ...] = ()
    """The rest of the path: the part of the branch."""
    after: bool = False
    """Whether it is computed after all layers: a stack's last norm, the head."""

    def within(self, level: Level, name: str) -> Address:
        """The address of the part that is held here under `name`."""
        if level == "module":
            return replace(self, module=name)
        if level == "layer":
            return replace(self, layer=name)
        if level == "branch":
            return replace(self, branch=name)
        if level == "sublayer":
            return replace(self, sublayer=True)
        if level == "last":
            return replace(self, branch=name, after=True)
        if level == "exit":
            return replace(self, module=name, after=True)
        return replace(self, part=(*self.part, name))

    def whole(self, stacks: Container[str]) -> bool:
        """Whether it is a component and nothing within one: a stack and a layer are made of several."""
        inside = self.sublayer or bool(self.part)
        return bool(self.module) and not inside and (self.branch is not None or self.module not in stacks)

    @property
    def component(self) -> str:
        """`decoder.attention`, whatever the layer; `decoder.final_norm`; `head`."""
        return self.module if self.branch is None else f"{self.module}.{self.branch}"

    def __str__(self) -> str:
        """Without plumbing: `decoder.local.attention.query`."""
        words = (self.module, self.layer, self.branch, *self.part)
        return ".".join(word for word in words if word)


MODEL = Address()
"""The address of the model itself."""
