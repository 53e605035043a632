"""The metrics of a run in one of its processes: read once, then kept beside the file that the first process writes, and told to
its loggers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer.training import journal
from anyformer.training.loggers import Following, Start
from anyformer.training.run import Run


@dataclass
class Metrics:
    """Every line of the metrics; `writes`: whether this process writes the file, and tells the loggers."""

    directory: Path
    writes: bool
    rows: list[dict[str, Any]]
    loggers: Following

    @staticmethod
    def read(directory: Path, run: Run, console: Console, *, writes: bool) -> Metrics:
        """The metrics as they stand in the run's directory."""
        rows, start = journal.read_metrics(directory), Start(directory, run.plain())
        return Metrics(directory, writes, rows, Following.of(run.loggers if writes else (), start, rows, run.tokens, console))

    def append(self, **row: Any) -> None:
        """Add a line."""
        if self.writes:
            journal.append(self.directory, **row)
        self.rows.append(row)
        self.loggers.told(len(self.rows), row)

    def rewind(self, step: int) -> None:
        """Drop the lines of updates after `step`."""
        if self.writes:
            journal.rewind(self.directory, step)
        self.rows = [row for row in self.rows if row["step"] <= step]
        self.loggers.rewound(len(self.rows), step)

    def finished(self) -> None:
        """Tell the loggers that every update is made, with the summary and the picture that are in the run's directory."""
        self.loggers.finished(self.rows[-1]["step"], journal.read_summary(self.directory), self.directory / journal.PICTURE)

    def catch_up(self) -> None:
        """Tell the loggers of a run that was finished before what they were never told."""
        self.loggers.catch_up(self.rows[-1]["step"], journal.read_summary(self.directory), self.directory / journal.PICTURE)

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The lines of evaluations."""
        return [row for row in self.rows if row["kind"] == "validation"]

    def evaluated(self, step: int, *, last: bool) -> bool:
        """Whether a step was evaluated; `last`: as the last one, of more tokens."""
        return any(row["step"] == step and row.get("last", False) >= last for row in self.evaluations)

    @property
    def lowest(self) -> float:
        """The lowest validation loss so far, of earlier processes too."""
        return min((row["loss"] for row in self.evaluations), default=float("inf"))
