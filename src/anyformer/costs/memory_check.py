"""The bytes of a training step against the free memory of a device, before anything is allocated."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

import torch

from anyformer.costs.available import free_memory
from anyformer.costs.member import Member
from anyformer.costs.moments import PeakMemory
from anyformer.costs.step import PricedStep
from anyformer.describe import UserError
from anyformer.operations import Shape
from anyformer.plan import Checkpointing, Plan
from anyformer.tuning import AdamW, AdamW8bit

CLOSE = 0.85
"""Share of the free memory above which a line says how much a step takes."""
TOKEN_BYTES = 8 * 6
"""Bytes of each position of a whole batch before the model: tokens, targets, places, positions and copies of them."""


class NotEnoughMemoryError(UserError):
    """A step does not fit into the free memory."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run that share memory: so many, `here`, take from the memory of one device; `members`, of which one is
    like each of them, hold a copy of the model together. None: each trains all of it by itself."""

    members: tuple[Member, ...] = ()
    here: int = 1

    def shared(self, peak: PeakMemory, accumulation: int = 1) -> int:
        """Bytes of all processes here at the peak, each as large as the largest, given what one process alone would hold for
        `accumulation` micro-batches."""
        return self.here * max((member.most(peak, accumulation) for member in self.members), default=peak.total)


ALONE = Processes()


def memory_warnings(
    step: PricedStep,
    *,
    batch: int,
    length: int,
    plan: Plan,
    accumulation: int = 1,
    device: torch.device | str = "cpu",
    free: int | None = None,
    processes: Processes = ALONE,
) -> Iterator[str]:
    """A line where a training step comes close to the free memory, none where it does not.

    `batch`: samples of an update in a process, in `accumulation` pieces; `free`: bytes, by default those of the device now.
    Raises `NotEnoughMemoryError` where the step does not fit, with changes that would.
    """
    free = free_memory(torch.device(device)) if free is None else free
    asked = _Request(step, batch, length, plan, accumulation, processes)
    within = "" if processes.here == 1 else f" in {processes.here} processes"
    if asked.bytes > free:
        size = f"{batch:,} x {length:,} tokens" + (f" in {accumulation} pieces" if accumulation > 1 else "") + within
        of_all = "" if processes.here == 1 else " for all processes of this machine"
        raise NotEnoughMemoryError(
            f"a training step on {size} needs {_size(asked.bytes)}{of_all}, and {_size(free)} are free; {_remedy(asked, free)}"
        )
    if asked.bytes > CLOSE * free:
        share, taken = asked.bytes / free, _size(asked.bytes)
        yield f"a training step{within} will take {taken} of the {_size(free)} of memory that are free ({share:.0%})"


@lru_cache(maxsize=16)
def training_bytes(
    step: PricedStep, *, batch: int, length: int, plan: Plan, accumulation: int = 1, processes: Processes = ALONE
) -> int:
    """Bytes of a training step at its peak, with its tokens, in all processes of a device; see `memory_warnings`."""
    shape = step.shape(batch // accumulation, length)
    tokens = accumulation * shape.batch * (length + 1) * (TOKEN_BYTES + step.position_bytes)
    return processes.shared(step.peak(shape, plan, accumulation), accumulation) + processes.here * tokens


@dataclass(frozen=True)
class _Request:
    """A training step, the user's or a smaller one."""

    step: PricedStep
    batch: int
    length: int
    plan: Plan
    accumulation: int
    processes: Processes = ALONE

    @property
    def bytes(self) -> int:
        """Its peak, with its tokens."""
        return training_bytes(
            self.step, batch=self.batch, length=self.length, plan=self.plan, accumulation=self.accumulation,
            processes=self.processes,
        )  # fmt: skip


def _remedy(step: _Request, free: int) -> str:
    """The changes that make the step fit, one setting at a time: of a number the least change."""
    changes: list[tuple[str, _Request]] = []
    pieces = [count for count in _divisors(step.batch) if count > step.accumulation]
    if pieces:
        enough = bisect_left(pieces, True, key=lambda count: replace(step, accumulation=count).bytes <= free)
        count = pieces[min(enough, len(pieces) - 1)]
        changes.append((f"accumulation = {count:,}", replace(step, accumulation=count)))
    order = get_args(Checkpointing)
    for how in order[order.index(step.plan.checkpointing) + 1 :]:
        changes.append((f"plan.checkpointing = '{how}'", replace(step, plan=step.plan.but(checkpointing=how))))
    if step.plan.number == "fp32":
        changes.append(("plan.precision = 'bf16'", replace(step, plan=step.plan.but(precision="bf16"))))
    rows = step.accumulation * _largest(
        step.batch // step.accumulation, lambda count: replace(step, batch=count * step.accumulation).bytes <= free
    )
    if rows:
        changes.append((f"batch = {rows:,}, halved until it fits", replace(step, batch=rows)))
    fits = [f"{how} ({_size(smaller.bytes)})" for how, smaller in changes if smaller.bytes <= free]
    if fits:
        return f"this fits: {', or '.join(fits)}"
    row = replace(step, batch=1, plan=step.plan.but(checkpointing="full"), accumulation=1)
    if row.bytes > free:
        return f"one row with plan.checkpointing = 'full' still needs {_size(row.bytes)}{_smaller(row)}"
    return f"take a smaller batch with plan.checkpointing = 'full', of which one row needs {_size(row.bytes)}"


def _smaller(row: _Request) -> str:
    """What takes the memory of one row, and what would take less of it: where most is there whatever the length, no length."""
    peak = row.step.peak(row.step.shape(1, row.length), row.plan)
    update = peak.at_update
    if 2 * (update.weights + update.gradients + update.optimiser) < peak.total:
        return ": take a smaller model or a shorter length"
    method = row.step.method
    optimiser = (row.step.optimiser or AdamW()) if method is None else method.optimiser
    ways = ["a smaller model", "a larger plan.mesh.shard over more devices or machines"]
    if method is None or method.tuning.adapter is None:
        ways.append("an adapter (tuning.adapter)")
        weights, eight = row.step.architecture.trained_cost(Shape(source=1)).weights.values(), AdamW8bit()
        if sum(map(eight.state_bytes, weights)) < sum(map(optimiser.state_bytes, weights)):
            ways.append(f"smaller states (optimiser.kind = {eight.kind!r})")
    return f", most of it weights, gradients and the optimiser's state: take {', '.join(ways[:-1])} or {ways[-1]}"


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest of most / 2, most / 4, ... that fits, 0 where none does."""
    halves = [most >> by for by in range(1, most.bit_length())]
    at = bisect_left(halves, True, key=fits)
    return halves[at] if at < len(halves) else 0


def _divisors(number: int) -> list[int]:
    """All divisors of a number, in order."""
    low = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*low, *(number // divisor for divisor in low)})


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
