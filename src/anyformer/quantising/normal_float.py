"""Quantiles of a normal distribution as numbers of 4 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from anyformer.quantising.format import LEAST, Plane, Quantising

if TYPE_CHECKING:
    from torch import Tensor


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
            "codes": ((-(-n // 2),), "uint8"),
            "scales": ((scales,), "uint8"),
            "factors": ((-(-scales // self.blocks),), "float32"),
        }

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        import torch

        from anyformer.quantising.packing import packed

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
        import torch

        from anyformer.quantising.packing import unpacked

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
    import torch

    return torch.nn.functional.pad(x, (0, -len(x) % size)).view(-1, size)
