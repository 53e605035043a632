"""What the processor of this machine can do, where it decides which of torch's kernels is fast."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes


def fingerprint(device: torch.device) -> str:
    """What a measurement on a device is kept under: the processor or GPU, its instructions that torch uses (variables of the
    environment hide some), the threads, and torch's version."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}; torch {torch.__version__}"
    lowered = [f"{name}={os.environ[name]}" for name in ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY") if name in os.environ]
    capability, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    return "; ".join(
        [_model(), capability, *lowered, f"{os.cpu_count()} cores, {threads} threads", f"torch {torch.__version__}"]
    )


@cache
def _model() -> str:
    """The processor's name, and its family, model and stepping, which other processors of that name do not share."""
    told = Path("/proc/cpuinfo")
    if not told.exists():
        return platform.processor() or platform.machine()
    lines = told.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    facts = {name.strip(): fact.strip() for name, _, fact in (line.partition(":") for line in lines)}
    wanted = ("model name", "cpu family", "model", "stepping")
    return ", ".join(facts[name] for name in wanted if name in facts) or platform.machine()


CompilerOptions = dict[str, str | int | bool | Callable[..., Any]]
"""Options of inductor, as `torch.compile` takes them."""
VECTORS: Mapping[str, int] = {"AVX512": 512, "AVX2": 256, "NO AVX": 1, "SVE256": 256, "DEFAULT": 128}
"""Bits of a vector that inductor writes code for, by torch's name of the processor's instructions; 1: no vectors. `DEFAULT` is
ARM with NEON, and x86 where the environment asks for it: inductor knows no vectors of 128 bits there, and writes none."""


def compiler_options() -> CompilerOptions:
    """What `torch.compile` is told about this processor: the bits of its vectors.

    Inductor would choose the same ones, but keeps compiled graphs on disk by its configuration and not by the processor. A
    graph written for vectors of 512 bits, loaded where torch uses 256 (another machine that shares the folder, or
    ATEN_CPU_CAPABILITY=avx2), computes half of every vector and leaves the rest as memory had it.
    """
    bits = VECTORS.get(torch.backends.cpu.get_cpu_capability())
    return {} if bits is None else {"cpp.simdlen": bits}


def multiplies_tiles() -> bool:
    """Whether it multiplies tiles of matrices of 16 bits in one instruction: AMX, in Intel's processors since 2023.

    There one row is multiplied by a matrix faster than by the same matrix in oneDNN's order, whose tiles one row fills to a
    sixteenth, and torch's attention reads a cache of 16 bits at the same rate as one of 32.
    """
    return torch.cpu._is_amx_tile_supported()


@cache
def packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies by a matrix of this type in an order of its own here: one was tried.

    It refuses numbers of 16 bits on a processor without instructions for them. On others than x86 it was never measured.
    """
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    with _disable_current_modes():  # of somebody who records what is computed, or computes without numbers
        ones = torch.ones(16, 16, dtype=dtype, device="cpu")
        try:
            held = torch.ops.mkldnn._reorder_linear_weight(ones, 1)
            found = torch.ops.mkldnn._linear_pointwise(ones, held, None, "none", [], "")
        except RuntimeError:
            return False
        return bool((found == 16).all())
