"""Tensors that tensor parallelism divides, by the flow of data: from a product with a column matrix to one with a row matrix.

A rank holds some outputs of a column matrix, and tensors computed from these; the product with a row matrix ends in a sum over
ranks, which every rank holds whole (Shoeybi et al. 2019, arXiv 1909.08053). Experts are not divided: each is whole on its rank.
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
    """The addresses of divided storages; `roles`: those of weights, and of tensors computed from weights alone, by address."""

    def __init__(self, roles: Mapping[int, Role]) -> None:
        self._roles = dict(roles)
        self._divided: set[int] = set()
        self._drawn: set[int] = set()

    def __contains__(self, at: int) -> bool:
        return at in self._divided

    def see(self, operator: Any, read: Sequence[Tensor], made: Sequence[Tensor], *, divides: bool) -> None:
        """Mark the outputs of an operation that are divided (only where `divides`), and noise for divided tensors."""
        inputs, outputs = [address(x) for x in read], [address(x) for x in made]
        roles = {self._roles[at] for at in inputs if at in self._roles}
        if inputs and len(roles) == 1 and all(at in self._roles for at in inputs):
            self._roles.update(dict.fromkeys(outputs, *roles))
        elif divides and self._divides(operator, inputs, roles):
            self._divided.update(outputs)
            shapes = {x.shape for x, at in zip(read, inputs, strict=True) if at in self._divided}
            self._divided.update(at for x, at in zip(read, inputs, strict=True) if at in self._drawn and x.shape in shapes)
        elif operator in DRAWS or any(at in self._drawn for at in inputs):
            self._drawn.update(outputs)

    def _divides(self, operator: Any, inputs: Sequence[int], roles: set[Role]) -> bool:
        if operator in LOOKUPS or (operator in PRODUCTS and roles & {"row", "expert"}):
            return False
        return "column" in roles or any(at in self._divided for at in inputs)
