"""Which tensors tensor parallelism divides, by the flow of data: from a product with a column matrix to one with a row matrix.

A rank holds some of a column matrix's outputs, and what is computed of these; the product with a row matrix ends in a sum over
ranks, which each has whole (Shoeybi et al. 2019, arXiv 1909.08053). Experts are not divided: each is whole on its rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from anyformer.costs.saved.paper import address
from anyformer.operations import Role
from anyformer.parts.layers.recompute import PRODUCTS

LOOKUPS: frozenset[Any] = frozenset({torch.ops.aten.embedding.default})
DRAWS: frozenset[Any] = frozenset({torch.ops.aten.randint.low_generator, torch.ops.aten.randint.low})


class Dividing:
    """`roles` of weights by the address of their storage, and of what is computed of weights alone."""

    def __init__(self, roles: Mapping[int, Role]) -> None:
        self._roles = dict(roles)
        self._divided: set[int] = set()
        self._drawn: set[int] = set()

    def __contains__(self, at: int) -> bool:
        return at in self._divided

    def see(self, operator: Any, read: Sequence[Tensor], made: Sequence[Tensor], *, divides: bool) -> None:
        """Mark what an operation made, where it may be divided, and noise of which a rank needs what meets its part alone."""
        given, new = [address(x) for x in read], [address(x) for x in made]
        roles = {self._roles[at] for at in given if at in self._roles}
        if given and len(roles) == 1 and all(at in self._roles for at in given):
            self._roles.update(dict.fromkeys(new, *roles))
        elif divides and self._divides(operator, given, roles):
            self._divided.update(new)
            shapes = {x.shape for x, at in zip(read, given, strict=True) if at in self._divided}
            self._divided.update(at for x, at in zip(read, given, strict=True) if at in self._drawn and x.shape in shapes)
        elif operator in DRAWS or any(at in self._drawn for at in given):
            self._drawn.update(new)

    def _divides(self, operator: Any, given: Sequence[int], roles: set[Role]) -> bool:
        if operator in LOOKUPS or (operator in PRODUCTS and roles & {"row", "expert"}):
            return False
        return "column" in roles or any(at in self._divided for at in given)
