"""Codes whose neighbours share a scale: 8-bit floats and integers, and 4 bits with a zero point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from anyformer.precision import INT8, NumberFormat
from anyformer.quantising.format import LEAST, Plane, Quantising

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.quantising.products import QuantisedProduct


@dataclass(frozen=True)
class Grouped(Quantising):
    """Neighbours along the inputs share a scale: x = scale q, or x = scale (q - zero).

    Signed codes are symmetric, scale = max |x| / largest. Codes of 4 bits are unsigned, from 0 to 15, with a zero point of 4
    bits: scale = (max - min) / 15 with 0 between them, zero = round(-min / scale). Codes are rounded with the scale as stored.
    """

    number: NumberFormat | None = None
    """The format of signed codes; None for unsigned ones of 4 bits."""
    group: int | None = None
    """Inputs that share a scale; None: a whole row, or with `one_scale` the whole matrix."""
    one_scale: bool = False
    scale_name: str = "bfloat16"
    """Torch's name of the type of scales."""

    @property
    def scale(self) -> torch.dtype:
        """The type of scales."""
        from anyformer.quantising.packing import typed

        return typed(self.scale_name)

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        *stacked, outputs, inputs = shape
        scales = (*stacked, 1, 1) if self.one_scale else (*stacked, outputs, self.groups(inputs))
        if self.number is not None:
            assert self.number.stored is not None
            return {"codes": (shape, self.number.stored), "scales": (scales, self.scale_name)}
        codes, zeros = (-(-prod(last) // 2) for last in ((outputs, inputs), scales[-2:]))
        return {
            "codes": ((*stacked, codes), "uint8"),
            "scales": (scales, self.scale_name),
            "zeros": ((*stacked, zeros), "uint8"),
        }

    def groups(self, inputs: int) -> int:
        """Groups of a row."""
        return -(-inputs // (self.group or inputs))

    def grid(self, group: Tensor) -> tuple[Tensor, Tensor]:
        """(scale, zero) of numbers (..., O, I) that share one in every row, or in all; (..., O or 1, 1), fp32."""
        import torch

        axes = (-2, -1) if self.one_scale else (-1,)
        if self.number is not None:
            step = group.abs().amax(axes, keepdim=True) / self.number.largest
            return (stored := step.clamp(min=LEAST).to(self.scale).float()), torch.zeros_like(stored)
        low, high = group.amin(axes, keepdim=True).clamp(max=0), group.amax(axes, keepdim=True).clamp(min=0)
        step = ((high - low) / 15).clamp(min=LEAST).to(self.scale).float()
        return step, (-low / step).round().clamp(0, 15)

    def codes(self, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """The nearest codes, as fp32 numbers."""
        from anyformer.precision.rounding import rounded

        if self.number is not None:
            return rounded(x / scale, self.number)
        return ((x / scale).round() + zero).clamp(0, 15)

    def numbers(self, codes: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """What codes stand for."""
        return (codes - zero) * scale

    def stored(self, codes: Tensor, scales: Tensor, zeros: Tensor) -> dict[str, Tensor]:
        """The planes of codes (..., O, I) with their scales and zero points (..., O, groups)."""
        from anyformer.quantising.packing import packed

        if self.number is not None:
            return {"codes": codes.to(self.number.dtype), "scales": scales.to(self.scale)}
        return {
            "codes": packed(codes.flatten(-2)),
            "scales": scales.to(self.scale),
            "zeros": packed(zeros.flatten(-2)),
        }

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        import torch

        x, size = matrix.float(), self.group or matrix.shape[-1]
        pieces = [(piece, *self.grid(piece)) for piece in torch.split(x, size, -1)]
        codes = torch.cat([self.codes(*piece) for piece in pieces], -1)
        return self.stored(codes, *(torch.cat([piece[i] for piece in pieces], -1) for i in (1, 2)))

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        from anyformer.quantising.packing import unpacked

        *stacked, outputs, inputs = shape
        scales = self._spread(planes["scales"].float(), inputs)
        if self.number is not None:
            return planes["codes"].float() * scales
        codes = unpacked(planes["codes"], outputs * inputs).reshape(shape).float()
        zeros = unpacked(planes["zeros"], outputs * self.groups(inputs)).reshape(*stacked, outputs, -1).float()
        return self.numbers(codes, scales, self._spread(zeros, inputs))

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> QuantisedProduct | None:
        from anyformer.quantising.packing import unpacked
        from anyformer.quantising.products import of_int4, of_int8

        if not self.multiplies(shape) or planes["codes"].device.type != "cpu":
            return None
        if self.group is None:
            return of_int8(planes["codes"], planes["scales"])
        outputs, inputs = shape
        zeros = unpacked(planes["zeros"], outputs * self.groups(inputs)).reshape(outputs, -1)
        return of_int4(planes["codes"], planes["scales"], zeros.float(), self.group)

    def multiplies(self, shape: tuple[int, ...]) -> bool:
        if self.one_scale or len(shape) != 2:
            return False
        if self.number is None:
            return self.group in (32, 64, 128) and shape[1] % self.group == 0
        # Of rows of other lengths the kernel of 8 bits reads beyond the end.
        return self.number == INT8 and self.group is None and shape[1] % 64 == 0

    def rows(self, planes: Mapping[str, Tensor], shape: tuple[int, ...], index: Tensor) -> Tensor | None:
        import torch
        import torch.nn.functional as F

        from anyformer.quantising.packing import numbers_at, unpacked

        outputs, inputs = shape
        if self.one_scale or (self.number is None and inputs % 2):  # then a row begins within a byte
            return None
        scales = self._spread(F.embedding(index, planes["scales"]).float(), inputs)
        if self.number is not None:
            return F.embedding(index, planes["codes"]).float() * scales
        codes = unpacked(F.embedding(index, planes["codes"].view(outputs, -1)), inputs).float()
        groups = self.groups(inputs)
        zeros = numbers_at(planes["zeros"], index[..., None] * groups + torch.arange(groups, device=index.device))
        return self.numbers(codes, scales, self._spread(zeros.float(), inputs))

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor]:
        return {name: plane[index] for name, plane in planes.items()}

    def joined(self, planes: Sequence[Mapping[str, Tensor]], shapes: Sequence[tuple[int, ...]]) -> Mapping[str, Tensor] | None:
        # Two codes of 4 bits share a byte, and so do two zero points.
        import torch

        between = self.number is None and any(outputs * self.groups(inputs) % 2 for outputs, inputs in shapes)
        if self.one_scale or between:
            return None
        return {name: torch.cat([each[name] for each in planes]) for name in planes[0]}

    def _spread(self, shared: Tensor, inputs: int) -> Tensor:
        """(..., O, groups) beside every input."""
        return shared if self.group is None else shared.repeat_interleave(self.group, -1)[..., :inputs]
