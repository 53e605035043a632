"""Addresses of declarations in a model."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["module", "exit", "layer", "branch", "last", "sublayer", "part"]
"""The levels of a model: it has modules (`embedding`, `decoder`) and an exit (`head`); a stack has layers, and parts before
(`branch`) and after them (`last`); a layer has branches, and norms and gains beside them; a branch has one sublayer, and a
sublayer has parts."""


@dataclass(frozen=True)
class Address:
    """The place in a model of a declaration: `decoder`, layer `3`, branch `attention`, part `query`."""

    module: str = ""
    """The module of the model: `embedding`, `encoder`, `decoder`, `head`."""
    layer: str | None = None
    """The number of a layer, or the variant of all layers that are priced as one; None outside the layers of a stack."""
    branch: str | None = None
    """A branch of a layer, a part beside it (`norm_after`), or a part of a stack beside its layers (`final_norm`)."""
    sublayer: bool = False
    """Whether it lies in the sublayer of a branch, between the norm before it and the norm after it."""
    part: tuple[str, ...] = ()
    """The rest of the path: the part of the branch, and the parts within it."""
    after: bool = False
    """Whether it is computed after all layers: a stack's last norm, the head."""

    def within(self, level: Level, name: str) -> Address:
        """The address of the part `name` of the part at this address."""
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

    def whole(self, layered: Container[str]) -> bool:
        """Whether it is a whole component: no part of one, and no module with layers and no layer, which have several."""
        inside = self.sublayer or bool(self.part)
        return bool(self.module) and not inside and (self.branch is not None or self.module not in layered)

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
