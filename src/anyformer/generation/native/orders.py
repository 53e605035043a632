"""How the numbers of matrices lie in memory: in rows, in oneDNN's blocks, as codes of 8 and 4 bits for torch's kernels."""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyformer.cache import Cache, digest
from anyformer.generation.native.table import KINDS, UnknownError
from anyformer.processor import fingerprint

ROWS, BLOCKS, SCALED_ROWS, BLOCKS_OF_4_BITS = range(4)
"""Orders in which the numbers of a matrix lie, as `Layout` of `matrices.h` counts them."""
WIDTHS = (64, 48, 32, 16)
"""Outputs of a block of oneDNN's orders."""
SAMPLES = 4096
"""Numbers of a matrix that are looked for."""
KEPT = Cache("orders", files=1000)


class Order(NamedTuple):
    """How the numbers of a matrix lie: in rows, or in blocks of so many outputs and bytes; the kind of the numbers."""

    layout: int
    kind: int
    block: int = 1
    block_bytes: int = 0
    group: int = 0


@cache
def onednn_order(outputs: int, inputs: int, dtype: torch.dtype) -> Order | None:
    """oneDNN's order of matrices of these sizes; None for one that is not known here.

    It is found by trying, and kept for later starts on a processor with the same instructions, threads and torch.
    """
    key = digest([fingerprint(torch.device("cpu")), outputs, inputs, str(dtype)])
    match KEPT.read(key):
        case []:
            return None
        case [int(), int(), int(), int(), int()] as words:
            return Order(*words)
    found = _tried(outputs, inputs, dtype)
    KEPT.write(key, list(found or ()))
    return found


def _tried(outputs: int, inputs: int, dtype: torch.dtype) -> Order | None:
    """The order of a matrix of which some numbers are looked for where they would lie.

    In a block the numbers of all its outputs lie side by side for every input, in bf16 for every pair of inputs.
    """
    size = dtype.itemsize
    together, code = 4 // size, torch.int16 if size == 2 else torch.int32
    draws = torch.Generator().manual_seed(0)
    o, i = (torch.randint(most, (SAMPLES,), generator=draws) for most in (outputs, inputs))
    matrix = torch.empty(outputs, inputs, dtype=code)
    matrix[o, i] = torch.randint(1, 2**14, (SAMPLES,), generator=draws, dtype=code)
    held = torch.ops.mkldnn._reorder_linear_weight(matrix.view(dtype), 1)
    count = torch.ops.mkldnn._nbytes(held) // size
    there = torch.frombuffer((ctypes.c_char * (count * size)).from_address(torch.ops.mkldnn.data_ptr(held)), dtype=code)
    if count == matrix.numel() and torch.equal(there[o * inputs + i], matrix[o, i]):
        return Order(ROWS, KINDS[dtype])
    for width in WIDTHS:
        deep, rest = divmod(count, -(-outputs // width) * width)
        if rest or deep < inputs or inputs % 2:
            continue
        lies = ((o // width * (deep // together) + i // together) * width + o % width) * together + i % together
        if torch.equal(there[lies], matrix[o, i]):
            return Order(BLOCKS, KINDS[dtype], width, deep * width * size)
    return None


FOUR_BITS = {("x86_64", "AVX512"): 64, ("x86_64", "AVX2"): 32, ("aarch64", "SVE256"): 32, ("aarch64", "DEFAULT"): 16}
"""Outputs of a block of codes of 4 bits, by the processor and what torch's kernels use of it."""


def _scaled(given: dict[str, Any]) -> tuple[Order, Tensor, Tensor]:
    """The order of a matrix in 8 bits, its codes and its scales."""
    return Order(SCALED_ROWS, 0), given["mat2"], given["scales"]


def _grouped(given: dict[str, Any]) -> tuple[Order, Tensor, Tensor]:
    """The order of a matrix in 4 bits, its codes, and scales with offsets."""
    codes, group, both = given["mat2"], given["qGroupSize"], given["qScaleAndZeros"]
    block = FOUR_BITS.get((platform.machine(), torch.backends.cpu.get_cpu_capability()))
    if block is None:
        raise UnknownError("codes of 4 bits on this processor")
    return Order(BLOCKS_OF_4_BITS, 0, block, block // 2 * given["self"].shape[-1], group), codes, both


FEW_BITS = {"aten::_weight_int8pack_mm": _scaled, "aten::_weight_int4pack_mm_for_cpu": _grouped}
"""What each operator of matrices in few bits multiplies by."""
