"""Minutes of wall clock for a whole command, and how many updates they hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anyformer.training.run import Run

clock: Callable[[], float] = time.monotonic
"""Seconds; the tests put their own in its place."""

ENDING = 4.0
"""Seconds kept for the picture, the summary and the sample; a quarter of what is left where that is less."""
SETTLED = 0.1
"""Share of the minutes that updates must have taken before their pace is believed."""
BASELINE_RATE = 1e6
"""Tokens that the bigram baseline counts in a second, on the slow side."""
EVALUATION = 0.1
"""Share of the time left that the last evaluation may take."""
MARGIN = 0.97
"""Share of the time for updates that the fitted ones are planned to take."""
LATE = 0.05
"""Share of the minutes by which a run may be foreseen to end late before it is shortened."""


@dataclass(frozen=True)
class Durations:
    """Seconds of an update, of evaluating one batch and of writing a checkpoint, and how many tokens the bigram baseline
    counts at most."""

    update: float
    batch: float
    save: float
    counted: int = 0


@dataclass(frozen=True)
class Fitted:
    """What the minutes hold: `steps` updates, and `tokens` held-out tokens in the last evaluation, which end `tail` seconds
    before the command."""

    steps: int
    tokens: int
    tail: float


@dataclass
class Budget:
    """`seconds` for a command that began at `began`."""

    seconds: float
    began: float
    tail: float = 0.0
    """Seconds that come after the last update."""
    text: float = 0.0
    """Seconds that preparing the text took."""
    _first: tuple[int, float] | None = field(default=None, init=False)
    _again: float = field(default=0.0, init=False)

    @property
    def left(self) -> float:
        """Seconds until the command should end."""
        return self.began + self.seconds - clock()

    def shortened(self, step: int, steps: int) -> int:
        """How many updates to make in all, once `step` of `steps` are done: fewer if the run would end late, never more.

        The pace is that of the updates since the first call, evaluations and checkpoints included.
        """
        now = clock()
        if self._first is None:
            self._first = step, now
            return steps
        before, since = self._first
        room = self.left - self.tail
        if room <= 0:
            return step
        if now - since < SETTLED * self.seconds or now < self._again:
            return steps
        pace = (now - since) / (step - before)
        if (steps - step) * pace - room <= LATE * self.seconds:
            return steps
        self._again = now + LATE * self.seconds
        return max(step, min(steps, step + int(room / pace)))


def fit(run: Run, took: Durations, left: float) -> Fitted:
    """The updates and the held-out tokens that `left` seconds hold: at least one update, and one batch of tokens."""
    look, batch = run.evaluation, run.batch * run.length
    batches = max(1, min(-(-look.final_tokens // batch), int(EVALUATION * left / took.batch)))
    baseline = min(took.counted, max(0.0, left) / took.update * batch) / BASELINE_RATE
    tail = batches * took.batch + took.save + baseline + min(ENDING, max(0.0, left) / 4)
    each = took.update + took.batch * look.batches / look.every + took.save / run.checkpoints.every
    steps = max(1, int(MARGIN * (left - tail) / each))
    return Fitted(steps, min(look.final_tokens, batches * batch), tail)
