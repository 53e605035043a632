"""Linear maps whose three products read operands in 8 or 4 bits, and scales in fp32."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.precision.formats import E8M0
from anyformer.precision.narrow import Fp8, Mxfp8, Nvfp4
from anyformer.precision.precision import Narrow
from anyformer.precision.rounding import exponent_of, power_of_two
from anyformer.precision.running import Running
from anyformer.precision.scaled_rounding import maximum, scaled_rounded
from anyformer.precision.scaling import MXFP8, NVFP4, ScaledFormat

LEAST = 1e-12
"""The smallest magnitude that a scale is computed from: a tensor of zeros has one too."""
FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
ROWS = 16
"""Rows of a product come in multiples of this; zeros fill the last ones."""


class Operand(NamedTuple):
    """Numbers X S (R, C), summed over C in a product, and S: one number, or one per row (R, 1)."""

    codes: Tensor
    scale: Tensor

    @property
    def transposed(self) -> Operand:
        """X^T, of an operand with one scale."""
        return Operand(self.codes.t().contiguous(), self.scale)


Stored = Callable[[Tensor, str], Operand]
"""A matrix (R, C) and what it is, `input`, `weight` or `gradient`, as the operand of a product that sums over C."""


Largest = Callable[[Tensor], Tensor]
"""The greatest magnitude (0-d) in all of a tensor, from that in the part that this process has."""


def scale_of(greatest: Tensor, dtype: torch.dtype) -> Tensor:
    """S = largest number of the format / greatest magnitude, in fp32; divided in fp64, as compiled code does."""
    return (torch.finfo(dtype).max / greatest.double().clamp(min=LEAST)).float()


def stored(x_RC: Tensor, scale: Tensor, dtype: torch.dtype) -> Operand:
    """round(X S) in 8 bits; what is beyond the largest number becomes the largest."""
    most = torch.finfo(dtype).max
    return Operand((x_RC.float() * scale).clamp(-most, most).to(dtype).contiguous(), scale)


def product(left: Operand, right: Operand, dtype: torch.dtype, *, exact: bool = True) -> Tensor:
    """left (M, C), right (N, C) -> (M, N) = left_scaled right_scaled^T / (S_left S_right), in numbers of `dtype`.

    `exact`: sums are in fp32 throughout. On a GPU by torch's scaled product; elsewhere 8-bit numbers are multiplied in fp32.
    """
    if left.codes.is_cuda and left.codes.dtype in FORMATS.values():
        return _by_units(left, right, dtype, exact=exact)
    undo = left.scale * right.scale.reshape(1, -1) if right.scale.ndim else left.scale * right.scale
    return ((left.codes.float() @ right.codes.float().t()) / undo).to(dtype)


def _by_units(left: Operand, right: Operand, dtype: torch.dtype, *, exact: bool) -> Tensor:
    """The product by 8-bit units. Scales by row exist for results in bf16 alone."""
    by_row = left.scale.ndim > 0
    made = torch._scaled_mm(
        left.codes, right.codes.t(), left.scale.reciprocal(), right.scale.reciprocal().reshape(1, -1) if by_row else
        right.scale.reciprocal(), out_dtype=torch.bfloat16 if by_row else dtype, use_fast_accum=not exact,
    )  # fmt: skip
    return made.to(dtype)


class _Products(torch.autograd.Function):
    """O = X W^T; dX = dO W; dW = dO^T X, each of operands as `operand` stores them.

    `once`: an operand has one scale, so that its transpose is the same numbers: X is kept in 8 bits for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, x_ZI: Tensor, weight_OI: Tensor, operand: Stored, once: bool) -> Tensor:
        x = operand(x_ZI, "input")
        ctx.operand, ctx.once, ctx.dtype = operand, once, x_ZI.dtype
        ctx.save_for_backward(weight_OI, *(x if once else (x_ZI,)))
        kind = x_ZI.device.type
        with torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
            return product(x, operand(weight_OI, "weight"), x_ZI.dtype, exact=False)

    @staticmethod
    def backward(ctx: Any, gradient_ZO: Tensor) -> tuple[Tensor | None, ...]:
        weight_OI, *kept = ctx.saved_tensors
        operand, once = ctx.operand, ctx.once
        g = operand(gradient_ZO, "gradient")
        input_gradient = weight_gradient = None
        if ctx.needs_input_grad[0]:
            weight = operand(weight_OI, "weight").transposed if once else operand(weight_OI.t(), "weight")
            input_gradient = product(g, weight, ctx.dtype)
        if ctx.needs_input_grad[1]:
            g = g.transposed if once else operand(gradient_ZO.t(), "gradient")
            x = Operand(*kept).transposed if once else operand(kept[0].t(), "input")
            weight_gradient = product(g, x, weight_OI.dtype)
        return input_gradient, weight_gradient, None, None


def own_largest(greatest: Tensor) -> Tensor:
    """`Largest` of a tensor that one process has."""
    return greatest


class _Current:
    """Operands of 8 bits whose scales follow from themselves, one per tensor or row, or from the updates before."""

    def __init__(self, precision: Fp8) -> None:
        self.precision = precision
        self.running = Running(precision.history) if precision.scaling == "running" else None
        self.largest: Largest = own_largest

    def operand(self, x_RC: Tensor, what: str, *, note: bool) -> Operand:
        dtype = FORMATS[self.precision.backward if what == "gradient" else "e4m3"]
        by_row = self.precision.scaling == "channel"
        greatest = x_RC.abs().amax(1, keepdim=True) if by_row else self.largest(x_RC.abs().amax())
        if self.running is not None:
            greatest = self.running.maximum(what, greatest, note=note)
        return stored(x_RC, scale_of(greatest, dtype), dtype)


class _Blocks:
    """Operands rounded to a format with a scale per block, in fp32: what a product of such blocks reads."""

    running = None

    def __init__(self, format: ScaledFormat, *, up: bool = False) -> None:
        self.format, self.up = format, up

    def operand(self, x_RC: Tensor, what: str, *, note: bool) -> Operand:
        by = unsaturated(maximum(x_RC, self.format), self.format) if self.up else None
        return Operand(scaled_rounded(x_RC.float(), self.format, by), torch.ones((), device=x_RC.device))


def unsaturated(greatest: Tensor, format: ScaledFormat) -> Tensor:
    """S = 2^floor(log2(largest / max |x|)): the greatest power of two with which no number of a block saturates."""
    exponent = exponent_of(format.element.largest / greatest.double().clamp(min=LEAST))
    return power_of_two(exponent.clamp(-E8M0.bias, E8M0.bias)).float()


def maker_of(precision: Narrow) -> _Current | _Blocks:
    """What makes the operands of a precision."""
    match precision:
        case Fp8():
            return _Current(precision)
        case Mxfp8():
            return _Blocks(MXFP8, up=precision.scale == "up")
    assert isinstance(precision, Nvfp4), f"nothing makes operands of {precision.kind}"
    return _Blocks(NVFP4)


class NarrowLinear(nn.Linear):
    """A linear map whose products are those of a `Narrow` precision; `weight` and `bias` keep their names and their type."""

    def __init__(self, linear: nn.Linear, precision: Narrow) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = linear.weight
        self.register_parameter("bias", linear.bias)
        self.precision, self.maker = precision, maker_of(precision)
        self.once = precision.shares in ("tensor", "running")

    def like(self, other: nn.Module) -> NarrowLinear:
        """Another linear map, with products like these."""
        assert isinstance(other, nn.Linear)
        return NarrowLinear(other, self.precision).train(self.training)

    @property
    def running(self) -> Running | None:
        """Scales of the updates before, where the precision has them."""
        return self.maker.running

    def divide(self, largest: Largest) -> None:
        """Take part in products whose tensors several processes divide, perhaps in more than one way."""
        assert isinstance(self.maker, _Current), "a block is no process's alone"
        own, maker = self.maker.largest, self.maker
        maker.largest = lambda greatest: largest(own(greatest))

    def forward(self, x: Tensor) -> Tensor:
        kind = x.device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            x = x.to(torch.get_autocast_dtype(kind))
        flat = x.reshape(-1, self.in_features)
        rows = len(flat)
        if missing := -rows % ROWS:
            flat = F.pad(flat, (0, 0, 0, missing))
        operand = partial(self.maker.operand, note=self.training)
        y: Tensor = _Products.apply(flat, self.weight, operand, self.once)  # type: ignore[no-untyped-call]
        y = (y[:rows] if missing else y).view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias.to(y.dtype)
