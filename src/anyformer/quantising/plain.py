"""Whole numbers, as they are or in a kernel's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.quantising.format import Plane, Quantising

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.quantising.products import QuantisedProduct


@dataclass(frozen=True)
class Plain(Quantising):
    """Whole numbers that are computed with as another type, or lie in a kernel's order: frozen weights of any shape."""

    kind: str = "float32"
    """Torch's name of their type."""

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        return {"codes": (shape, self.kind)}

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        from anyformer.quantising.packing import typed

        return {"codes": matrix.to(typed(self.kind))}

    def ordered(self, matrix: Tensor) -> dict[str, Tensor]:
        """The planes of a matrix (O, I), or of each of several (X, O, I), that products alone read: in their kernel's order."""
        from anyformer.quantising.packing import typed
        from anyformer.quantising.products import ordered

        if matrix.dim() == 2:
            return {"codes": ordered(matrix.to(typed(self.kind)))}
        return {f"codes {x}": ordered(each.to(typed(self.kind))) for x, each in enumerate(matrix)}

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        import torch

        dense = [(plane.to_dense() if plane.is_mkldnn else plane).float() for plane in planes.values()]
        return dense[0] if "codes" in planes else torch.stack(dense)

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> QuantisedProduct | None:
        from anyformer.quantising.products import of_whole

        return of_whole(planes["codes"]) if len(shape) == 2 else None

    def multiplies(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == 2

    def rows(self, planes: Mapping[str, Tensor], shape: tuple[int, ...], index: Tensor) -> Tensor | None:
        import torch.nn.functional as F

        codes = planes.get("codes")
        return None if codes is None or codes.is_mkldnn else F.embedding(index, codes)

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor]:
        return {"codes": planes["codes"][index] if "codes" in planes else planes[f"codes {index}"]}
