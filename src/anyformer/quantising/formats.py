"""How the weights of a model may be stored: every format by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from anyformer.precision import E4M3, INT8
from anyformer.quantising.format import MatrixFormat
from anyformer.quantising.grouped import Grouped
from anyformer.quantising.normal_float import NormalFloat
from anyformer.quantising.plain import Plain

if TYPE_CHECKING:
    from torch import Tensor


FORMATS: Mapping[str, MatrixFormat] = MappingProxyType(
    {
        format.name: format
        for format in (
            MatrixFormat("fp32", 32, 32),
            MatrixFormat("bf16", 16),
            # One fp32 scale per matrix, an expert's its own (Micikevicius et al. 2022, arXiv 2209.05433), or per output row.
            Grouped("fp8", 8, number=E4M3, one_scale=True, scale_name="float32"),
            Grouped("fp8-row", 8, number=E4M3, scale_name="float32"),
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
HALF, SINGLE = Plain("bf16", 16, kind="bfloat16"), Plain("fp32", 32, 32, kind="float32")
"""How frozen weights are held that a format of fewer bits leaves whole."""


def plain_of(matrix: Tensor) -> Plain:
    """How the numbers of a frozen weight are held."""
    import torch

    return HALF if matrix.dtype == torch.bfloat16 else SINGLE


USUAL = ("fp32", "bf16", "fp8", "int8", "int4")
"""The formats that a cost sheet shows."""
