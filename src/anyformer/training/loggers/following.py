"""The loggers of a run, each told what is written into the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from anyformer.training.loggers.follower import Follower
from anyformer.training.loggers.logger import Ending, Logger, Start
from anyformer.training.loggers.scalars import named

LONGEST = 30.0
"""Seconds that the end of a run waits for its loggers."""


@dataclass
class Following:
    """A context manager around the updates of a process. No method waits for a logger but the end, which waits `LONGEST`."""

    followers: Sequence[Follower]
    console: Console
    _ending: Ending = field(default="stopped", init=False)

    @staticmethod
    def of(
        loggers: Sequence[Logger], start: Start, rows: Sequence[Mapping[str, Any]], tokens: int, console: Console
    ) -> Following:
        """The loggers of a run whose metrics have these lines already. `tokens`: of an update."""
        return Following([Follower(logger, start, tuple(rows), tokens) for logger in loggers], console)

    def __enter__(self) -> Self:
        for follower in self.followers:
            follower.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):  # the second Ctrl-C ends at once
            return
        for follower in self.followers:
            follower.end(self._ending if error is None else "failed")
        until = monotonic() + LONGEST
        for follower in self.followers:
            if not follower.over.wait(max(0.0, until - monotonic())):
                follower.give_up(f"it was not done within {LONGEST:.0f} s of the end")
        self._say()

    def told(self, lines: int, row: Mapping[str, Any]) -> None:
        """A line was added to the metrics, which have so many now."""
        for follower in self.followers:
            follower.told(lines, row)
        self._say()

    def rewound(self, lines: int, step: int) -> None:
        """The lines of updates after `step` were taken out of the metrics, which have so many now."""
        for follower in self.followers:
            follower.rewound(lines, step)

    def finished(self, step: int, summary: Mapping[str, Any], picture: Path) -> None:
        """Every update is made, and this is the summary."""
        self._ending = "finished"
        for follower in self.followers:
            follower.finished(step, named(summary, "summary"), picture)

    def catch_up(self, step: int, summary: Mapping[str, Any], picture: Path) -> None:
        """Tell the loggers of a finished run what they were never told, if anything."""
        late = Following([follower for follower in self.followers if follower.behind], self.console)
        with late:
            late.finished(step, summary, picture)

    def _say(self) -> None:
        """Print what the loggers said."""
        for follower in self.followers:
            while not follower.said.empty():
                line, warning = follower.said.get()
                self.console.out(line, style="yellow" if warning else None, highlight=False)
