"""Which library multiplies matrices in the compiled passes of a run in fp32: oneDNN where a trial finds it faster than BLAS."""

from __future__ import annotations

from functools import cache

import torch

from anyformer.cache import Cache, digest
from anyformer.costs.calibration import best_times
from anyformer.mesh import started
from anyformer.plan import Plan
from anyformer.processor import CompilerOptions, compiler_options, fingerprint, packs

ROWS, INPUTS, OUTPUTS = 2048, 384, 1024
"""Sizes of the trial."""
ROUNDS = 10
"""Turns of every product in the trial, which take about half a second."""
LEAST = 1.03
"""The gain from which oneDNN is taken: below it, the next trial might say otherwise."""
KEPT = Cache("products", files=100)


def options_of(plan: Plan, device: torch.device) -> CompilerOptions:
    """What torch.compile is told of the passes of a run: the processor's vectors, and who multiplies matrices."""
    if not by_onednn(plan, device):
        return compiler_options()
    from anyformer.training.product_pass import ByOneDNN  # imports torch's compiler

    return {**compiler_options(), "post_grad_custom_post_pass": ByOneDNN()}


def notes_of(plan: Plan, device: torch.device) -> list[str]:
    """A line for the reader of a compiled run, where it is not BLAS that multiplies."""
    if plan.compile != "on" or not by_onednn(plan, device):
        return []
    return [f"products in fp32 by oneDNN, {gain_of_onednn():.2f} times as fast here as by BLAS (--no-compile: by BLAS)"]


def by_onednn(plan: Plan, device: torch.device) -> bool:
    """Whether oneDNN multiplies in compiled passes: in fp32, in one process, since trials of several might not agree."""
    return device.type == "cpu" and plan.number == "fp32" and started() == 1 and gain_of_onednn() >= LEAST


@cache
def gain_of_onednn() -> float:
    """By what factor oneDNN computes the products x W^T and y W faster than BLAS; 0 where it computes none.

    Kept for later runs on a processor with the same instructions, threads and torch, which thereby compute the same bits.
    """
    if not packs(torch.float32):
        return 0.0
    key = digest([fingerprint(torch.device("cpu"))])
    match KEPT.read(key):
        case float(kept):
            return kept
    gain = round(_measured(), 3)
    KEPT.write(key, gain)
    return gain


def _measured() -> float:
    """The trial: the best times of both, in turn."""
    draw = torch.Generator().manual_seed(0)
    x, weight, y = (torch.randn(*sizes, generator=draw) for sizes in ((ROWS, INPUTS), (OUTPUTS, INPUTS), (ROWS, OUTPUTS)))
    linear = torch.ops.mkldnn._linear_pointwise
    with torch.inference_mode():
        *blas, forward, back = best_times(
            ROUNDS,
            lambda: x @ weight.t(),
            lambda: y @ weight,
            lambda: linear(x, weight, None, "none", [], ""),
            lambda: linear(y, weight.t(), None, "none", [], ""),
        )
    return sum(blas) / (forward + back)
