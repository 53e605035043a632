"""What a trial gave, read from its directory: `outcome.json` says how it ended, the run's own files hold the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from anyformer.describe import UserError, did_you_mean, read_json
from anyformer.files import write_text
from anyformer.studies.lengths import Numbers, asked
from anyformer.training.chart import Rows
from anyformer.training.instability import ReportSpikes
from anyformer.training.journal import read_metrics, read_summary

OUTCOME = "outcome.json"
Status = Literal["finished", "diverged", "failed"]
POINTS = 100
"""Points of a curve of training losses that are kept, each the mean of as many updates."""


@dataclass(frozen=True)
class Ended:
    """How a trial ended, as its file says: `key` of the trial, `reason` where it did not finish."""

    key: str
    status: Status
    reason: str = ""

    def write(self, directory: Path) -> None:
        write_text(directory / OUTCOME, json.dumps(asdict(self), indent=2) + "\n")

    @staticmethod
    def read(directory: Path, key: str) -> Ended | None:
        """The file of the trial with this key; None where there is none, or it is not whole."""
        try:
            found = Ended(**read_json(directory / OUTCOME))
        except (OSError, ValueError, TypeError):
            return None
        return found if found.key == key else None


@dataclass(frozen=True)
class TrialOutcome:
    """The numbers of a trial. `numbers`: the held-out loss and the objective's metrics at the end, empty unless it finished;
    `curve`: (tokens, held-out loss), `training`: (tokens, mean training loss); `batches`: digests of the
    first and the last one; `lengths`: numbers at other lengths than the trained one."""

    status: Status
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[tuple[int, float]] = ()
    training: Sequence[tuple[int, float]] = ()
    updates: int = 0
    tokens: int = 0
    largest_gradient: float | None = None
    spikes: int = 0
    batches: str = ""
    tokens_per_second: float | None = None
    memory: float | None = None
    seconds: float = 0.0
    lengths: Numbers = field(default_factory=dict)

    def number(self, metric: str, diverged: float) -> float | None:
        """The metric at the end, `diverged` if it diverged, None if it failed."""
        if self.status == "finished":
            return _of(self.numbers, metric)
        return diverged if self.status == "diverged" else None

    def number_at(self, length: int, metric: str, diverged: float) -> float | None:
        """The metric at another length, as `number` gives that of the trained one."""
        if self.status == "finished":
            return _of(self.lengths[length], metric)
        return diverged if self.status == "diverged" else None


def _of(numbers: Mapping[str, float], metric: str) -> float:
    if metric not in numbers:
        raise UserError(f"metric: no trial reports a {metric!r}{did_you_mean(metric, numbers)}")
    return numbers[metric]


def read_outcome(directory: Path, ended: Ended) -> TrialOutcome:
    """The outcome of a trial that ended."""
    rows, summary = read_metrics(directory), read_summary(directory)
    updates = [row for row in rows if row["kind"] == "train"]
    evaluations = [row for row in rows if row["kind"] == "validation"]
    gradients = [row["gradient_norm"] for row in updates if row["gradient_norm"] is not None]
    rate, memory = (summary.get(name, {}).get("measured") for name in ("tokens_per_second", "memory"))
    return TrialOutcome(
        status=ended.status,
        reason=ended.reason,
        numbers=_numbers(evaluations, directory) if ended.status == "finished" else {},
        curve=[(row["tokens"], row["loss"]) for row in evaluations],
        training=_means(updates),
        updates=len(updates),
        tokens=updates[-1]["tokens"] if updates else 0,
        largest_gradient=max(gradients, default=None),
        spikes=spikes([row["loss"] for row in updates]),
        batches="".join(row["data"] for row in updates[:1] + updates[-1:]),
        tokens_per_second=rate,
        memory=memory,
        seconds=sum(row["seconds"] for row in updates),
        lengths=asked(directory) if ended.status == "finished" else {},
    )


def spikes(losses: Sequence[float]) -> int:
    """Losses far above the running median; see `training.instability`."""
    rule = ReportSpikes()
    return sum(rule.spike(losses[max(0, at - rule.window) : at], loss) is not None for at, loss in enumerate(losses))


def _numbers(evaluations: Rows, where: Path) -> dict[str, float]:
    """The loss and the other metrics of the last evaluation."""
    last: Mapping[str, Any] = next((row for row in reversed(evaluations) if row.get("last")), {})
    if not last:
        raise UserError(f"{where}: its metrics are damaged; delete the directory, and the trial is run again")
    found = {"loss": last["loss"], "bits_per_byte": last.get("bits_per_byte"), **last.get("metrics", {})}
    return {name: number for name, number in found.items() if number is not None}


def _means(updates: Rows) -> list[tuple[int, float]]:
    """Means of as many neighbouring training losses as leave `POINTS` points, at the tokens of the last of them."""
    each = -(-len(updates) // POINTS) or 1
    groups = [updates[at : at + each] for at in range(0, len(updates), each)]
    return [(group[-1]["tokens"], sum(row["loss"] for row in group) / len(group)) for group in groups]


@dataclass(frozen=True)
class TrialPace:
    """Updates made so far, the seconds of the median one and the loss of the last one, of a trial that goes on."""

    updates: int = 0
    seconds: float = 0.0
    loss: float | None = None


def pace(directory: Path) -> TrialPace:
    """How far a trial is."""
    rows = [row for row in read_metrics(directory) if row["kind"] == "train"]
    return TrialPace(len(rows), median(row["seconds"] for row in rows), rows[-1]["loss"]) if rows else TrialPace()
