"""The metrics of a run in one of its processes: read once, then kept beside the file that the first process writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.training import journal


@dataclass
class Metrics:
    """Every line of the metrics; `writes`: whether this process writes the file."""

    directory: Path
    writes: bool
    rows: list[dict[str, Any]]

    @staticmethod
    def read(directory: Path, *, writes: bool) -> Metrics:
        """The metrics as they stand in the run's directory."""
        return Metrics(directory, writes, journal.read_metrics(directory))

    def append(self, **row: Any) -> None:
        """Add a line."""
        if self.writes:
            journal.append(self.directory, **row)
        self.rows.append(row)

    def rewind(self, step: int) -> None:
        """Drop the lines of updates after `step`."""
        if self.writes:
            journal.rewind(self.directory, step)
        self.rows = [row for row in self.rows if row["step"] <= step]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The lines of evaluations."""
        return [row for row in self.rows if row["kind"] == "validation"]
