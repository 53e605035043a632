"""How the weights of a model are stored: whole, or matrices in 8 or 4 bits; each format's bytes, rounding and restoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import torch
from torch import Tensor

from anyformer.operations import Weight
from anyformer.precision import E4M3, INT8, NumberFormat, rounded
from anyformer.quantising.packing import packed, unpacked
from anyformer.quantising.products import Product, of_bf16, of_int4, of_int8

Plane = tuple[tuple[int, ...], torch.dtype]
"""Shape and type of one of the tensors that a matrix is stored in."""
LEAST = 1e-12
"""The smallest scale: what is all zero has to be divided by something."""


@dataclass(frozen=True)
class Format:
    """How matrices are stored: `bits` per element, and what they share.

    Only matrices of blocks (and of the embeddings' projections) are quantised: tables, heads, norms, routers, biases and
    whatever else has one dimension stay 16 bits, as in GPTQ, AWQ and fp8 checkpoints; `fp32` stores all in 32.
    """

    name: str
    bits: int
    other_bits: int = 16
    """Bits per element of weights that are not quantised."""

    @property
    def whole(self) -> bool:
        """Whether matrices are stored as plain numbers, like everything else."""
        return True

    def matrix_bytes(self, weight: Weight) -> int:
        """Bytes of one declared weight (all its copies), scales included."""
        return weight.copies * -(-prod(weight.shape) * self.bits // 8)

    def bytes(self, weight: Weight) -> int:
        """Bytes of a weight as it is stored."""
        return self.matrix_bytes(weight) if weight.quantisable else -(-weight.count * self.other_bits // 8)


@dataclass(frozen=True)
class Quantising(Format):
    """A format below 16 bits: a matrix (O, I), or experts (X, O, I), becomes several tensors, its planes."""

    @property
    def whole(self) -> bool:
        return False

    def matrix_bytes(self, weight: Weight) -> int:
        """The bytes of all planes, for each copy."""
        return weight.copies * sum(prod(shape) * dtype.itemsize for shape, dtype in self.planes(weight.shape).values())

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        """The tensors that a matrix of this shape is stored in."""
        raise NotImplementedError

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        """The planes of a matrix, each number rounded to the nearest."""
        raise NotImplementedError

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        """The matrix that the planes hold, fp32."""
        raise NotImplementedError

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Product | None:
        """The product with the matrix (O, I) as it is stored, where torch has a kernel for it."""
        return None

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor] | None:
        """The planes of one of several matrices (X, O, I), as views; None where they cannot be told apart."""
        return None


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
    scale: torch.dtype = torch.bfloat16

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        *stacked, outputs, inputs = shape
        scales = (*stacked, 1, 1) if self.one_scale else (*stacked, outputs, self.groups(inputs))
        if self.number is not None:
            assert self.number.dtype is not None
            return {"codes": (shape, self.number.dtype), "scales": (scales, self.scale)}
        codes, zeros = (-(-prod(last) // 2) for last in ((outputs, inputs), scales[-2:]))
        return {
            "codes": ((*stacked, codes), torch.uint8),
            "scales": (scales, self.scale),
            "zeros": ((*stacked, zeros), torch.uint8),
        }

    def groups(self, inputs: int) -> int:
        """Groups of a row."""
        return -(-inputs // (self.group or inputs))

    def grid(self, group: Tensor) -> tuple[Tensor, Tensor]:
        """(scale, zero) of numbers (..., O, I) that share one in each row, or in all; (..., O or 1, 1), fp32."""
        axes = (-2, -1) if self.one_scale else (-1,)
        if self.number is not None:
            step = group.abs().amax(axes, keepdim=True) / self.number.largest
            return (stored := step.clamp(min=LEAST).to(self.scale).float()), torch.zeros_like(stored)
        low, high = group.amin(axes, keepdim=True).clamp(max=0), group.amax(axes, keepdim=True).clamp(min=0)
        step = ((high - low) / 15).clamp(min=LEAST).to(self.scale).float()
        return step, (-low / step).round().clamp(0, 15)

    def codes(self, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """The nearest codes, as fp32 numbers."""
        if self.number is not None:
            return rounded(x / scale, self.number)
        return ((x / scale).round() + zero).clamp(0, 15)

    def numbers(self, codes: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """What codes stand for."""
        return (codes - zero) * scale

    def stored(self, codes: Tensor, scales: Tensor, zeros: Tensor) -> dict[str, Tensor]:
        """The planes of codes (..., O, I) with their scales and zero points (..., O, groups)."""
        if self.number is not None:
            return {"codes": codes.to(self.number.dtype), "scales": scales.to(self.scale)}
        return {
            "codes": packed(codes.flatten(-2)),
            "scales": scales.to(self.scale),
            "zeros": packed(zeros.flatten(-2)),
        }

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        x, size = matrix.float(), self.group or matrix.shape[-1]
        pieces = [(piece, *self.grid(piece)) for piece in torch.split(x, size, -1)]
        codes = torch.cat([self.codes(*piece) for piece in pieces], -1)
        return self.stored(codes, *(torch.cat([piece[i] for piece in pieces], -1) for i in (1, 2)))

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        *stacked, outputs, inputs = shape
        scales = self._spread(planes["scales"].float(), inputs)
        if self.number is not None:
            return planes["codes"].float() * scales
        codes = unpacked(planes["codes"], outputs * inputs).reshape(shape).float()
        zeros = unpacked(planes["zeros"], outputs * self.groups(inputs)).reshape(*stacked, outputs, -1).float()
        return self.numbers(codes, scales, self._spread(zeros, inputs))

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Product | None:
        if self.one_scale or len(shape) != 2:
            return None
        outputs, inputs = shape
        match self.number, self.group:
            case NumberFormat(), None if self.number == INT8:
                return of_int8(planes["codes"], planes["scales"])
            case None, int(group):
                codes = unpacked(planes["codes"], outputs * inputs).reshape(shape)
                zeros = unpacked(planes["zeros"], outputs * self.groups(inputs)).reshape(outputs, -1)
                return of_int4(codes, planes["scales"].float(), zeros.float(), group)
        return None

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor]:
        return {name: plane[index] for name, plane in planes.items()}

    def _spread(self, shared: Tensor, inputs: int) -> Tensor:
        """(..., O, groups) beside every input."""
        return shared if self.group is None else shared.repeat_interleave(self.group, -1)[..., :inputs]


@dataclass(frozen=True)
class Half(Quantising):
    """bf16 numbers that are computed with as another type: frozen weights of any shape in half the bytes of fp32."""

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        return {"codes": (shape, torch.bfloat16)}

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        return {"codes": matrix.to(torch.bfloat16)}

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        return planes["codes"].float()

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Product | None:
        return of_bf16(planes["codes"]) if len(shape) == 2 else None

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor]:
        return {"codes": planes["codes"][index]}


# Quantiles of a normal distribution between -1 and 1, with 0 among them: appendix E of QLoRA (arXiv 2305.14314).
NF4_NUMBERS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


@dataclass(frozen=True)
class NormalFloat(Quantising):
    """4-bit quantiles of a normal distribution, times the largest of a block of the flattened matrix (QLoRA, arXiv 2305.14314).

    Each block has a scale of 8 bits, a share of the largest of 256 blocks, which is fp32: the paper's double quantisation, here
    without the mean that it takes off, for scales are positive.
    """

    block: int = 64
    blocks: int = 256

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        """ceil(n / 2) + ceil(n / 64) + 4 ceil(ceil(n / 64) / 256) bytes: 0.516 a number."""
        n = prod(shape)
        scales = -(-n // self.block)
        return {
            "codes": ((-(-n // 2),), torch.uint8),
            "scales": ((scales,), torch.uint8),
            "factors": ((-(-scales // self.blocks),), torch.float32),
        }

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        x = matrix.float().flatten()
        blocks = _filled(x, self.block)
        largest = _filled(blocks.abs().amax(1), self.blocks)
        factors = (largest.amax(1) / 255).clamp(min=LEAST)
        # A block that is not all zero keeps a scale above zero.
        scales = (largest / factors[:, None]).round().clamp(min=1).flatten()[: len(blocks)].to(torch.uint8)
        ratio = blocks / self._scales({"scales": scales, "factors": factors})[:, None]
        table = torch.tensor(NF4_NUMBERS, device=x.device)
        codes = torch.bucketize(ratio.contiguous(), (table[1:] + table[:-1]) / 2)
        return {"codes": packed(codes.flatten()[: len(x)]), "scales": scales, "factors": factors}

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        n = prod(shape)
        table = torch.tensor(NF4_NUMBERS, device=planes["codes"].device)
        numbers = _filled(table[unpacked(planes["codes"], n).long()], self.block)
        return (numbers * self._scales(planes)[:, None]).flatten()[:n].reshape(shape)

    def _scales(self, planes: Mapping[str, Tensor]) -> Tensor:
        """The scale of each block."""
        scales = planes["scales"].float()
        return scales * planes["factors"].repeat_interleave(self.blocks)[: len(scales)]


def _filled(x: Tensor, size: int) -> Tensor:
    """A flat tensor in rows of `size`, the last filled with zeros."""
    return torch.nn.functional.pad(x, (0, -len(x) % size)).view(-1, size)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        format.name: format
        for format in (
            Format("fp32", 32, 32),
            Format("bf16", 16),
            # One fp32 scale per matrix, an expert's its own (Micikevicius et al. 2022, arXiv 2209.05433), or per output row.
            Grouped("fp8", 8, number=E4M3, one_scale=True, scale=torch.float32),
            Grouped("fp8-row", 8, number=E4M3, scale=torch.float32),
            # One scale per output row (LLM.int8(), Dettmers et al. 2022, arXiv 2208.07339).
            Grouped("int8", 8, number=INT8),
            # Groups of inputs with a 16-bit scale and a 4-bit zero point (GPTQ, arXiv 2210.17323; AWQ, 2306.00978).
            Grouped("int4", 4, group=128),
            Grouped("int4-64", 4, group=64),
            Grouped("int4-32", 4, group=32),
            NormalFloat("nf4", 4),
        )
    }
)
"""Every format, by name."""
HALF = Half("bf16", 16)
"""How frozen weights are held that a format of fewer bits leaves whole."""
USUAL = ("fp32", "bf16", "fp8", "int8", "int4")
"""The formats that a cost sheet shows."""
