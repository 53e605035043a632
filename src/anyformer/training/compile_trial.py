"""Whether the passes of a run are compiled: by a trial on its first batch, kept for later runs of its kind on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from anyformer.cache import Cache, contents, digest
from anyformer.describe import to_json
from anyformer.processor import fingerprint
from anyformer.training.display import COMPILING
from anyformer.training.passes import MicroBatches, OneByOne, uncompiled
from anyformer.training.precision import deterministic, units
from anyformer.training.run import Run
from anyformer.training.timing import gradients_of, seconds_of
from anyformer.training.trainer import Trainer

MOST_SECONDS = 10.0
"""Of the passes of a trial, beside that which compiles; a pass of each kind is made even where it takes longer."""
SHARE = 0.05
"""Of a run's minutes that a trial may take."""
ROUNDS = 3
KEPT = Cache("compiling", files=500)


@dataclass(frozen=True)
class Times:
    """Seconds of a pass over a batch, forward and backward, compiled and in eager mode: the best of some."""

    compiled: float
    eager: float

    @property
    def line(self) -> str:
        """What follows from them, for the reader."""
        found = f"{self.compiled:.3g} s compiled and {self.eager:.3g} s in eager mode"
        if self.compiled <= self.eager:
            return f"a pass takes {found}: compiled"
        return f"a pass takes {found}: in eager mode (plan.compile = 'on' compiles)"


def with_faster(trainer: Trainer, say: Callable[[str], None], left: float = math.inf) -> Trainer:
    """The trainer whose passes are compiled, or in eager mode where that is faster; `say` is told which, and why.

    For a run in one process whose plan left it open. What was measured before counts for runs of the same architecture, sizes,
    objective and plan on the same processor with the same torch and package. `left`: seconds of the run's minutes; a run that
    a trial would take too much of is compiled without one. Gradients are thrown away, so that no weight changes.
    """
    passes = trainer.passes
    assert isinstance(passes, OneByOne), "a run in one process"
    key = digest(facts_of(trainer.run, trainer.model.device))
    eager, known = uncompiled(passes), _kept(key)
    times = known or _tried(trainer, passes, eager, say, left)
    if times is None:
        return trainer
    if known is None:
        KEPT.write(key, [times.compiled, times.eager])
    say(times.line + (", as measured before" if known else ""))
    if times.compiled <= times.eager:
        return trainer
    plan = trainer.run.plan.but(compile="off")
    trainer.model.plan = plan  # which says to whom it may concern how passes are made
    return replace(trainer, run=trainer.run.but(plan=plan), passes=eager)


def facts_of(run: Run, device: torch.device) -> list[str]:
    """What the times of a pass depend on."""
    sizes = f"{run.batch // run.accumulation} x {run.length}"
    values = (run.architecture, run.plan, run.objective, run.tuning)
    return [*map(to_json, values), sizes, fingerprint(device), contents()]


def _kept(key: str) -> Times | None:
    """What was measured before; None if nothing was, or what is kept is no such thing."""
    match KEPT.read(key):
        case [float(compiled), float(eager)]:
            return Times(compiled, eager)
        case _:
            return None


def _tried(trainer: Trainer, compiled: OneByOne, eager: OneByOne, say: Callable[[str], None], left: float) -> Times | None:
    """The times of both, in turn; None where the run has no time for it."""
    batch = trainer.micro_batches(0)
    one = MicroBatches(batch.pieces[:1], batch.count, batch.seed, batch.step)

    def seconds(passes: OneByOne) -> float:
        return seconds_of(lambda: gradients_of(trainer, passes, one))

    with deterministic(), units(trainer.run.plan):
        first = seconds(eager)
        allowed = min(MOST_SECONDS, SHARE * left)
        rounds = min(ROUNDS, int((allowed - first) / (2 * first)))
        if rounds < 1 and math.isfinite(left):
            return None
        say(COMPILING)
        seconds(compiled)
        times = [(seconds(compiled), seconds(eager)) for _ in range(max(rounds, 1))]
    return Times(*map(min, zip(*times, strict=True)))
