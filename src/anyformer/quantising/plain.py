"""Whole numbers, as they are or in a kernel's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.quantising.format import Plane, Quantising
from anyformer.quantising.products import QuantisedProduct, of_whole, ordered


@dataclass(frozen=True)
class Plain(Quantising):
    """Whole numbers that are computed with as another type, or lie in a kernel's order: frozen weights of any shape."""

    dtype: torch.dtype = torch.float32

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        return {"codes": (shape, self.dtype)}

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        return {"codes": matrix.to(self.dtype)}

    def ordered(self, matrix: Tensor) -> dict[str, Tensor]:
        """The planes of a matrix (O, I), or of each of several (X, O, I), that products alone read: in their kernel's order."""
        if matrix.dim() == 2:
            return {"codes": ordered(matrix.to(self.dtype))}
        return {f"codes {x}": ordered(each.to(self.dtype)) for x, each in enumerate(matrix)}

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        dense = [(plane.to_dense() if plane.is_mkldnn else plane).float() for plane in planes.values()]
        return dense[0] if "codes" in planes else torch.stack(dense)

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> QuantisedProduct | None:
        return of_whole(planes["codes"]) if len(shape) == 2 else None

    def rows(self, planes: Mapping[str, Tensor], index: Tensor) -> Tensor | None:
        codes = planes.get("codes")
        return None if codes is None or codes.is_mkldnn else F.embedding(index, codes)

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor]:
        return {"codes": planes["codes"][index] if "codes" in planes else planes[f"codes {index}"]}
