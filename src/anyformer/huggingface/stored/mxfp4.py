"""MXFP4 as gpt-oss stores its experts: 4-bit codes in blocks of 32 inputs, each with a power of two (OCP Microscaling 1.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.numbers import fp4_numbers, powers_of_two
from anyformer.huggingface.stored.scheme import FoundWeights, Plane, Shape, StoredTensor, filled
from anyformer.huggingface.stored.settings import FormatSettings

METHODS = ("mxfp4",)
BLOCK = 32
"""Inputs that share a scale."""


@dataclass(frozen=True)
class Mxfp4Experts:
    """Experts (X, I, O) stored as blocks (X, O, I / 32, 16) of two codes in a byte, and exponents (X, O, I / 32)."""

    name: str = "mxfp4 in blocks of 32"

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        shape = parts["codes"].shape
        if len(shape) != 4 or shape[-1] != BLOCK // 2:
            raise ValueError(f"blocks should have the shape (experts, outputs, blocks, {BLOCK // 2}), and have {shape}")
        experts, outputs, blocks, _ = shape
        return experts, blocks * BLOCK, outputs

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        experts, inputs, outputs = whole
        blocks = (experts, outputs, inputs // BLOCK)
        return {"codes": ((*blocks, BLOCK // 2), torch.uint8), "scales": (blocks, torch.uint8)}

    def restored(self, parts: Mapping[str, StoredTensor], whole: Shape, dtype: torch.dtype) -> Tensor:
        experts, inputs, outputs = whole
        codes = parts["codes"].read().reshape(experts * outputs, -1, BLOCK // 2)
        exponents = parts["scales"].read().reshape(experts * outputs, -1)

        def numbers(start: int, end: int) -> Tensor:
            return (fp4_numbers(codes[start:end]) * powers_of_two(exponents[start:end])[..., None]).flatten(1)

        return filled((experts * outputs, inputs), dtype, 0, 1, numbers).reshape(experts, outputs, inputs).mT


@dataclass(frozen=True)
class Mxfp4:
    def find(self, files: TensorFiles) -> FoundWeights:
        return FoundWeights(
            dict(gathered(files, "", {"codes": "_blocks", "scales": "_scales"}, lambda *_: Mxfp4Experts())), set_aside(files)
        )


def read(settings: FormatSettings) -> Mxfp4:
    """The format of a configuration's settings."""
    settings.finish(())
    return Mxfp4()
