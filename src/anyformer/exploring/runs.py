"""Runs and studies that were opened, from the files in their directories alone: no torch is needed, and no run is disturbed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os.path import isfile  # which no name is too long for
from pathlib import Path
from typing import Any

from anyformer.describe import UserError, did_you_mean, read_json
from anyformer.exploring.curves import bands, curves, of_experts
from anyformer.exploring.problems import UnknownNameError
from anyformer.exploring.question import Query, check_keys
from anyformer.exploring.run_status import RunFiles, RunStatus

STUDY, TRIALS, REPORT = "study.toml", "trials", "report.json"
RUN, SUMMARY, ENVIRONMENT = "run.toml", "summary.json", "environment.json"
MOST = 64
"""Runs in one answer at most."""


def is_study(path: str) -> bool:
    """Whether a path is the directory of a study."""
    return isfile(Path(path) / STUDY)


def is_run_directory(path: str) -> bool:
    """Whether a path is the directory of a run."""
    return isfile(Path(path) / RUN)


@dataclass(frozen=True)
class OpenedRuns:
    """The directories of runs and studies that a page may read."""

    runs: tuple[str, ...]
    studies: tuple[str, ...]

    @classmethod
    def among(cls, opened: Sequence[str]) -> OpenedRuns:
        """Those among what was opened."""
        studies = tuple(path for path in opened if is_study(path))
        return cls(tuple(path for path in opened if is_run_directory(path) and path not in studies), studies)

    def trials(self, study: str) -> list[str]:
        """The directories of the trials of a study that have begun, by name."""
        return sorted(str(path.parent) for path in (Path(study) / TRIALS).glob(f"*/{RUN}"))

    @property
    def every(self) -> list[str]:
        """All runs, those of studies too."""
        return [*self.runs, *(trial for study in self.studies for trial in self.trials(study))]


class RunDesk:
    """Answers about runs; of a run that goes on the new lines alone are read again."""

    def __init__(self, opened: OpenedRuns) -> None:
        self.opened = opened
        self._files = cache(lambda path: RunFiles(Path(path)))

    def runs(self, query: Query) -> dict[str, Any]:
        """The runs that a query names, by default all that were opened: how they stand, curves, experts, predictions."""
        check_keys(query, ("run",), several=("run",))
        known = self.opened.every
        names = list(dict.fromkeys(query.get("run") or known[:MOST]))
        if len(names) > MOST:
            raise UserError(f"run: at most {MOST} runs at a time, got {len(names)}")
        for name in names:
            if name not in known:
                raise UnknownNameError(f"run: {name[:200]!r} was not opened{did_you_mean(name, known)}")
        statuses = {name: self._files(name).status() for name in names}
        settings = {name: _table(Path(name) / RUN) for name in names}
        told = [_run(name, status, settings[name]) for name, status in statuses.items()]
        return {"runs": told, "bands": bands({name: status.updates for name, status in statuses.items()}, settings)}

    def study(self, query: Query) -> dict[str, Any]:
        """A study: its report once it has one, and how every trial stands."""
        check_keys(query, ("study",))
        name = next(iter(query.get("study", self.opened.studies)), "")
        if name not in self.opened.studies:
            raise UnknownNameError(f"study: {name[:200]!r} was not opened{did_you_mean(name, self.opened.studies)}")
        trials = self.opened.trials(name)
        statuses = {path: self._files(path).status() for path in trials}
        return {
            "study": name,
            "title": str(_table(Path(name) / STUDY).get("title", Path(name).name)),
            "settings": _table(Path(name) / STUDY),
            "report": _json(Path(name) / REPORT),
            "trials": [{"run": path, "title": Path(path).name, **status.facts()} for path, status in statuses.items()],
        }


def _run(name: str, status: RunStatus, settings: Mapping[str, Any]) -> dict[str, Any]:
    directory = Path(name)
    return {
        "run": name,
        "title": directory.name,
        **{key: value for key, value in status.facts().items() if key != "name"},
        "settings": settings,
        "series": curves(status.updates),
        "evaluations": list(status.evaluations),
        "experts": of_experts(status.updates, status.evaluations),
        "events": list(status.others),
        "predicted": _predictions(_json(directory / SUMMARY)),
        "environment": _json(directory / ENVIRONMENT),
    }


def _predictions(summary: Any) -> dict[str, Any] | None:
    """Predictions beside measurements, and the notes on them; None before the end of a run."""
    if not isinstance(summary, Mapping):
        return None
    whole = {"predicted", "measured"}
    both = {key: value for key, value in summary.items() if isinstance(value, Mapping) and value.keys() >= whole}
    return {"figures": both, "notes": summary.get("notes", [])}


def _json(path: Path) -> Any:
    """What a file holds; None where it is not there, or is being written."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None


def _table(path: Path) -> dict[str, Any]:
    """The data of a TOML file; empty where it is being replaced."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(tomllib.loads(path.read_text(encoding="utf-8")), default=str))
        return found
    except (OSError, ValueError):
        return {}
