"""The kernel of attention in C++ beside torch's, alone: forward and backward together, behind a gate against fp64."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from benchmarks.parts.race import race, ratio
from torch import Tensor

from anyformer.parts.attention.attend import attend
from anyformer.parts.call.context import Visible

SHAPES = {
    "16 x 256, 6 heads of 64": (16, 6, 6, 256, 64),
    "4 x 512, 8 heads of 128": (4, 8, 8, 512, 128),
    "2 x 1,024, 12 heads of 64, 4 of keys": (2, 12, 4, 1024, 64),
    "2 x 2,048, 12 heads of 64": (2, 12, 12, 2048, 64),
}
"""Rows, query heads, key heads, positions, features."""
KERNELS = ("native", "sdpa")


def native_kernel() -> dict[str, Any]:
    """By shape and type: seconds of torch's kernel over those of ours, and the largest error of each in shares of the largest
    entry of the result and of the gradients."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        for name, (B, H, K, T, E) in SHAPES.items():
            for causal in (True, False):
                draw = torch.Generator().manual_seed(0)
                given = [
                    torch.randn(B, T, heads, E, generator=draw).to(dtype).transpose(1, 2).requires_grad_()
                    for heads in (H, K, K)
                ]
                works = {kernel: partial(learnt, kernel, given, causal) for kernel in KERNELS}
                exact = learnt("sdpa", [x.detach().double().requires_grad_() for x in given], causal)
                errors = {
                    kernel: float(f"{max(error(*pair) for pair in zip(work(), exact, strict=True)):.1e}")
                    for kernel, work in works.items()
                }
                if errors["native"] > 2 * errors["sdpa"]:
                    raise SystemExit(f"{name}: the kernel in C++ errs by {errors['native']}, torch's by {errors['sdpa']}")
                times = race(works)
                how = f"{str(dtype).removeprefix('torch.')}, {name}{', causal' if causal else ''}"
                found[how] = {"faster_by": ratio(times, "sdpa", "native"), "errors": errors}
    return found


def learnt(kernel: str, given: list[Tensor], causal: bool) -> list[Tensor]:
    """The result, and the gradients of q, k and v in its own direction."""
    mixed = attend(*given, Visible(causal=causal), scale=given[0].shape[-1] ** -0.5, kernel=kernel)
    return [mixed.detach(), *torch.autograd.grad(mixed, given, mixed.detach())]


def error(found: Tensor, exact: Tensor) -> float:
    """The largest difference in shares of the largest entry."""
    return float((found.double() - exact).abs().max() / exact.abs().max())
