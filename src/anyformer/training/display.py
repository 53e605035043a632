"""Progress of a run on the console: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

COMPILING = "compiling the step: about half a minute, once, and minutes on a busy machine; --no-compile does without"
BESIDE = 20
"""Columns of a terminal that the bar and the time left take beside numbers, at least."""
TIMED = 3
"""Updates after which the time left is predicted; the first one warms up or compiles."""


class _FactsColumn(ProgressColumn):
    """The numbers beside the bar."""

    def render(self, task: Task) -> Text:
        return Text.from_markup(task.fields.get("facts", ""))


@dataclass
class Display:
    """A context manager; `step` after every update, `evaluating` around an evaluation, `evaluated` after it."""

    console: Console
    steps: int
    peak: float
    flops_per_token: int
    first: int = 0
    plain_every: float = 10.0
    _validation: str = "-"
    _rate: float = 0.0
    _updates: int = 0
    """Updates of this process."""
    _last: float = 0.0
    _told: float = 0.0
    _progress: Progress | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            columns = (
                TextColumn("[bold]{task.description} {task.completed}/{task.total}"),
                # The bar takes the columns that the numbers leave, so that everything fits into 80.
                BarColumn(bar_width=None, table_column=Column(ratio=1)),
                _FactsColumn(table_column=Column(no_wrap=True)),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=self.console, refresh_per_second=4, expand=True)
            self._progress.start()
            self._progress.add_task("step", total=self.steps, completed=self.first)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def compiling(self) -> None:
        """Announce that the first update is compiled, which takes long."""
        self.console.out(COMPILING, highlight=False)
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], facts="compiling")

    def step(self, step: int, loss: float, tokens: int, seconds: float, more: Sequence[str] = ()) -> None:
        """Update number `step` (from 1) took `seconds` for `tokens` tokens; `more`: words on it, shown where there is room."""
        now = tokens / seconds
        self._rate = 0.9 * self._rate + 0.1 * now if self._updates > 1 else now
        self._updates += 1
        # A peak measured while the machine was busy is too low; none is exceeded.
        share = min(1.0, self._rate * self.flops_per_token / self.peak)
        facts = f"loss {loss:.3f}  validation {self._validation}"
        if self._updates > 1 or step == self.steps:
            # In a tiny model the time goes into calling kernels, and the share is not worth a column.
            facts += f"  {self._rate:,.0f} tokens/s" + (f"  {share:.0%} of peak" if share >= 0.01 else "")
            facts += self._fitting(more, len(facts))
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=step, facts=facts)
        elif time.monotonic() - self._last > self.plain_every or step == self.steps:
            self._last = time.monotonic()
            left = f"  {(self.steps - step) * tokens / self._rate:.0f} s left" if self._updates > TIMED else ""
            self.console.out(f"step {step}/{self.steps}  {facts}{left}", highlight=False)

    def _fitting(self, more: Sequence[str], taken: int) -> str:
        """As many words as there is room for beside the bar; all of them in a pipe or a file."""
        room, said = self.console.width - taken - len(f"step {self.steps}/{self.steps}") - BESIDE, ""
        for each in more:
            if self._progress is None or len(said) + len(each) + 2 <= room:
                said += f"  {each}"
        return said

    def saved(self, line: str) -> None:
        """A checkpoint was written; told at most as often as a plain line is printed."""
        if time.monotonic() - self._told > self.plain_every:
            self._told = time.monotonic()
            self.console.out(line, highlight=False)

    def shorten(self, step: int, steps: int) -> None:
        """The run has fewer updates now."""
        self.console.out(
            f"the machine got slower: {steps} updates instead of {self.steps} end in time; from step {step} on, the schedule "
            "is that of the new number",
            highlight=False,
        )
        self.steps = steps
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], total=steps)

    @contextmanager
    def evaluating(self, total: int, whole: int, unit: str, *, aloud: bool) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with the tokens (or other `unit`) evaluated so far, of `total` out of `whole`; `aloud`:
        print a line first."""
        if aloud:
            of = f"all {whole:,} held-out" if total >= whole else f"{total:,} of {whole:,} held-out"
            self.console.out(f"evaluating {of} {unit}{'' if total >= whole else ', evenly sampled'}", highlight=False)
        if self._progress is None:
            yield self._lines(total, unit)
            return
        progress = self._progress
        bar = progress.add_task("evaluated", total=total, facts=unit)
        try:
            yield lambda done: progress.update(bar, completed=done)
        finally:
            progress.remove_task(bar)

    def _lines(self, total: int, unit: str) -> Callable[[int], None]:
        said = time.monotonic()

        def done(tokens: int) -> None:
            nonlocal said
            if time.monotonic() - said > self.plain_every:
                said = time.monotonic()
                self.console.out(f"evaluated {tokens:,} of {total:,} {unit}", highlight=False)

        return done

    def evaluated(self, step: int, loss: float) -> None:
        """An evaluation gave this validation loss."""
        self._validation = f"{loss:.3f}"
