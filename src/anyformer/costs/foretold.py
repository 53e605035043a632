"""Memory foretold: what a training step will take, held against what the device has, before anything is allocated."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import torch

from anyformer.costs.available import free_memory
from anyformer.costs.peak import peak_memory
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan

CLOSE = 0.85
"""Share of the free memory from which it is said how much is taken."""
TOKEN_BYTES = 8 * 6
"""Of each position of a whole batch on its way from the data: tokens, targets, places, positions and copies of them."""


class NotEnoughMemoryError(UserError):
    """What was asked for does not fit into the memory that is free."""


def foretell_training(
    architecture: Architecture,
    *,
    batch: int,
    length: int,
    plan: Plan,
    accumulation: int = 1,
    device: torch.device | str = "cpu",
    free: int | None = None,
) -> Iterator[str]:
    """A line where a training step comes close to the free memory, none where it does not.

    `batch`: rows of an update, in `accumulation` pieces; `free`: bytes, by default those of the device now. Raises
    `NotEnoughMemoryError` where the step does not fit, with what would.
    """
    free = free_memory(torch.device(device)) if free is None else free
    step = _Request(architecture, batch, length, plan, accumulation)
    if step.bytes > free:
        asked = f"{batch:,} x {length:,} tokens" + (f" in {accumulation} pieces" if accumulation > 1 else "")
        raise NotEnoughMemoryError(
            f"a training step on {asked} needs {_size(step.bytes)}, and {_size(free)} are free; {_remedy(step, free)}"
        )
    yield from _close("a training step", step.bytes, free)


@dataclass(frozen=True)
class _Request:
    """A training step as it was asked for, or a smaller one."""

    architecture: Architecture
    batch: int
    length: int
    plan: Plan
    accumulation: int

    @cached_property
    def bytes(self) -> int:
        """The most it holds at once, with its tokens."""
        peak = peak_memory(
            self.architecture, batch=self.batch // self.accumulation, length=self.length, plan=self.plan,
            accumulation=self.accumulation,
        )  # fmt: skip
        return peak.total + self.batch * (self.length + 1) * TOKEN_BYTES


def _remedy(step: _Request, free: int) -> str:
    """What fits with one thing changed; of what grows or shrinks step by step the least change."""
    found: list[tuple[str, _Request]] = []
    pieces = [count for count in _divisors(step.batch) if count > step.accumulation]
    if pieces:
        enough = bisect_left(pieces, True, key=lambda count: replace(step, accumulation=count).bytes <= free)
        count = pieces[min(enough, len(pieces) - 1)]
        found.append((f"accumulation = {count:,}", replace(step, accumulation=count)))
    order = get_args(Checkpointing)
    for how in order[order.index(step.plan.checkpointing) + 1 :]:
        found.append((f"plan.checkpointing = '{how}'", replace(step, plan=step.plan.but(checkpointing=how))))
    if step.plan.precision != "bf16":
        found.append(("plan.precision = 'bf16'", replace(step, plan=step.plan.but(precision="bf16"))))
    rows = step.accumulation * _largest(
        step.batch // step.accumulation, lambda count: replace(step, batch=count * step.accumulation).bytes <= free
    )
    if rows:
        found.append((f"batch = {rows:,}, halved until it fits", replace(step, batch=rows)))
    fits = [f"{how} ({_size(smaller.bytes)})" for how, smaller in found if smaller.bytes <= free]
    if fits:
        return f"this fits: {', or '.join(fits)}"
    least = _Request(step.architecture, 1, step.length, step.plan.but(checkpointing="full"), 1).bytes
    if least > free:
        return f"one row with plan.checkpointing = 'full' still needs {_size(least)}: take a smaller model or a shorter length"
    return f"take a smaller batch with plan.checkpointing = 'full', of which one row needs {_size(least)}"


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest of most / 2, most / 4, ... that fits; 0 if none does."""
    halves = [most >> by for by in range(1, most.bit_length())]
    at = bisect_left(halves, True, key=fits)
    return halves[at] if at < len(halves) else 0


def _close(what: str, need: int, free: int) -> Iterator[str]:
    if need > CLOSE * free:
        yield f"{what} will take {_size(need)} of the {_size(free)} of memory that are free ({need / free:.0%})"


def _divisors(number: int) -> list[int]:
    """All, in order."""
    low = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
