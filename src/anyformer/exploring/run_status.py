"""How a run stands, from the files in its directory alone: nothing of torch is needed, and the run is not disturbed."""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os.path import isfile  # which no name is too long for
from pathlib import Path
from statistics import median
from typing import Any

from anyformer.describe import UserError

NEWEST = 20
"""Updates whose median says how long one takes."""
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunStatus:
    """`steps`: updates wanted, None where they are not known; `silence`: seconds since the last line; `left`: of the updates
    that are to come, evaluations not counted; `checkpoint`: the last one's step, and how many seconds ago it was written."""

    name: str
    state: str
    reason: str
    step: int
    steps: int | None
    silence: float | None
    left: float | None
    tokens_per_second: float | None
    checkpoint: tuple[int, float] | None
    updates: Rows
    """Lines of updates, in order."""
    evaluations: Rows
    others: Rows
    """Lines of the other kinds: `skipped`, `spike`, `rewound`, `shortened`."""

    @property
    def happened(self) -> Mapping[str, int]:
        """How many lines there are of every other kind."""
        return Counter(row["kind"] for row in self.others)

    @property
    def ended(self) -> bool:
        """Whether no line can come."""
        return not self.state.startswith("running")

    @property
    def usage(self) -> Mapping[str, Any]:
        """What the newest update made of the machine; empty in lines of an older version."""
        found = self.updates[-1].get("usage") if self.updates else None
        return found if isinstance(found, Mapping) else {}

    def facts(self) -> dict[str, Any]:
        """Plain data, for JSON: the newest lines in the place of all."""
        lines = ("updates", "evaluations", "others")
        every = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in lines}
        rows = {"update": self.updates, "evaluation": self.evaluations}
        newest = {name: found[-1] if found else None for name, found in rows.items()}
        return every | {"happened": dict(self.happened)} | newest


@dataclass
class RunFiles:
    """The directory of a run, of whose metrics the new lines alone are read again."""

    directory: Path
    _rows: list[dict[str, Any]] = field(default_factory=list, init=False)
    _read: int = field(default=0, init=False)
    """Bytes of the metrics that were read."""
    _file: int = field(default=0, init=False)
    """The number of the file that they were read from: a run that goes back replaces it."""

    def __post_init__(self) -> None:
        if not isfile(self.directory / "run.toml"):
            raise UserError(f"{self.directory}: not a run directory, it has no run.toml")

    def status(self) -> RunStatus:
        """How the run stands now."""
        path = self.directory / "metrics.jsonl"
        self._follow(path)
        settings = self._settings()
        updates = [row for row in self._rows if row["kind"] == "train"]
        step, steps = updates[-1]["step"] if updates else 0, settings.get("steps")
        seconds = [row["seconds"] for row in updates[-NEWEST:] if row.get("seconds")]
        pace = median(seconds) if seconds else None
        state, reason = self._state(step == steps)
        rate = None
        if pace is not None and len(updates) > 1:
            rate = (updates[-1]["tokens"] - updates[-2]["tokens"]) / (updates[-1]["step"] - updates[-2]["step"]) / pace
        return RunStatus(
            name=self.directory.resolve().name, state=state, reason=reason, step=step, steps=steps,
            silence=time.time() - path.stat().st_mtime if path.exists() else None,
            left=None if pace is None or steps is None else (steps - step) * pace,
            tokens_per_second=rate, checkpoint=self._checkpoint(), updates=updates,
            evaluations=[row for row in self._rows if row["kind"] == "validation"],
            others=[row for row in self._rows if row["kind"] not in ("train", "validation")],
        )  # fmt: skip

    def _follow(self, path: Path) -> None:
        """Read the lines that are new, or all of them where the file is another one or shorter."""
        if not path.exists():
            return
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_ino != self._file or facts.st_size < self._read:
                self._rows, self._read, self._file = [], 0, facts.st_ino
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and {"kind", "step"} <= row.keys():
                self._rows.append(row)

    def _settings(self) -> dict[str, Any]:
        try:
            return tomllib.loads((self.directory / "run.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it is being replaced
            return {}

    def _state(self, all_made: bool) -> tuple[str, str]:
        """In a word or a few, and why. A process that holds the directory comes first: it may not have begun to train yet."""
        holder = self._holder()
        if holder is not None and runs(holder):
            return "running", ""
        try:
            end = json.loads((self.directory / "end.json").read_text(encoding="utf-8"))
            return str(end["state"]), str(end["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        if holder is not None:
            return "running elsewhere, or killed", f"process {holder} is not on this machine"
        done = all_made and (self.directory / "summary.json").exists()
        return ("finished", "") if done else ("stopped", "no process trains in this directory")

    def _holder(self) -> int | None:
        """The number of the process that holds the directory, None if none does."""
        try:
            return int((self.directory / ".lock").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _checkpoint(self) -> tuple[int, float] | None:
        found = sorted((self.directory / "checkpoints").glob("step-*"))
        names = [(path.name.removeprefix("step-"), path) for path in found]
        steps = [(int(step), path) for step, path in names if step.isdecimal()]
        return (steps[-1][0], time.time() - steps[-1][1].stat().st_mtime) if steps else None


def runs(process: int) -> bool:
    """Whether a process of this number is on this machine; where that cannot be asked, it is taken for running."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
