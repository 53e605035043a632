"""Minutes of wall clock for a whole command, and the number of updates that fit into them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anyformer.training.run import Run

clock: Callable[[], float] = time.monotonic
"""Seconds; tests replace it."""

worked: Callable[[], float] = time.thread_time
"""Seconds that this thread had a core; tests replace it."""

ENDING = 4.0
"""Seconds reserved for the picture, the summary and the sample where nothing else wants the core, at most a quarter of the
seconds left."""
SETTLED = 0.1
"""Share of the minutes that updates must have taken before their pace counts."""
BASELINE_RATE = 1e6
"""Tokens that the bigram baseline counts in a second, on the slow side."""
EVALUATION = 0.1
"""Share of the time left that the last evaluation may take."""
MARGIN = 0.97
"""Share of the time for updates that is planned."""
LATE = 0.05
"""Share of the minutes by which a run may be predicted to end late before it is shortened."""


@dataclass(frozen=True)
class Durations:
    """Seconds of an update, of evaluating one batch and of writing a checkpoint, and how many tokens the bigram baseline
    counts at most; `shared`: as many times longer than with a core of its own the machine takes."""

    update: float
    batch: float
    save: float
    counted: int = 0
    shared: float = 1.0


@dataclass(frozen=True)
class Fitted:
    """The updates (`steps`) and the held-out tokens of the last evaluation that the minutes hold; updates end `tail` seconds
    before the command."""

    steps: int
    tokens: int
    tail: float


@dataclass
class TimeBudget:
    """The time of a command: `seconds` from `began`, a reading of the clock."""

    seconds: float
    began: float
    tail: float = 0.0
    """Seconds between the last update and the end."""
    text: float = 0.0
    """Seconds that preparing the text durations."""
    _first: tuple[int, float] | None = field(default=None, init=False)
    _again: float = field(default=0.0, init=False)

    @property
    def left(self) -> float:
        """Seconds until the command should end."""
        return self.began + self.seconds - clock()

    def shortened(self, step: int, steps: int) -> int:
        """Number of updates in all, once `step` of `steps` are done: fewer if the run would end late, never more.

        The pace is that of the updates since the first call, evaluations and checkpoints included.
        """
        now = clock()
        if self._first is None or step <= self._first[0]:  # at the first call, and after going back
            self._first = step, now
            return steps
        before, since = self._first
        available = self.left - self.tail
        if available <= 0:
            return step
        if now - since < SETTLED * self.seconds or now < self._again:
            return steps
        pace = (now - since) / (step - before)
        if (steps - step) * pace - available <= LATE * self.seconds:
            return steps
        self._again = now + LATE * self.seconds
        return max(step, min(steps, step + int(available / pace)))


def fit(run: Run, durations: Durations, left: float) -> Fitted:
    """The updates and the held-out tokens that fit into `left` seconds: at least one update and one batch of tokens."""
    evaluation, batch = run.evaluation, run.batch * run.length
    batches = max(1, min(-(-evaluation.final_tokens // batch), int(EVALUATION * left / durations.batch)))
    baseline = min(durations.counted, max(0.0, left) / durations.update * batch) / BASELINE_RATE
    tail = batches * durations.batch + durations.save + baseline + min(ENDING * durations.shared, max(0.0, left) / 4)
    per_update = (
        durations.update + durations.batch * evaluation.batches / evaluation.every + durations.save / run.checkpoints.every
    )
    steps = max(1, int(MARGIN * (left - tail) / per_update))
    return Fitted(steps, min(evaluation.final_tokens, batches * batch), tail)
