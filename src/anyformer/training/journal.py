"""The run's directory: what was asked (`run.toml`), where it ran (`environment.json`), what happened (`metrics.jsonl`),
and at the end what was predicted beside what was measured (`summary.json`)."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anyformer.describe import UserError, from_toml, to_toml
from anyformer.training.precision import Machine
from anyformer.training.run import Run

RUN = "run.toml"
METRICS = "metrics.jsonl"
ENVIRONMENT = "environment.json"
SUMMARY = "summary.json"
PACKAGES = ("anyformer", "torch", "numpy", "tokenizers", "safetensors", "pydantic")


class RunDirectoryError(UserError):
    """A run directory cannot be used as asked."""


def create(directory: Path, run: Run, machine: Machine) -> None:
    """Start a run's directory; refuses one that already holds a run."""
    if (directory / RUN).exists():
        raise RunDirectoryError(
            f"{directory}: already holds a run; continue it with --resume {directory}, or choose another --out"
        )
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / ENVIRONMENT, json.dumps(environment(machine), indent=2) + "\n")
    # Last, because a directory with run.toml is a run.
    write_whole(directory / RUN, to_toml(run))


def read_run(directory: Path) -> Run:
    """The resolved run of a directory."""
    path = directory / RUN
    if not path.is_file():
        raise RunDirectoryError(f"{directory}: not a run directory, it has no {RUN}")
    return from_toml(Run, path.read_text(encoding="utf-8"), str(path))


def environment(machine: Machine) -> dict[str, Any]:
    """What a number of this run depends on besides the run itself."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a package"
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": machine.name,
        "cores": os.cpu_count(),
        "peak_flops": {name: round(peak) for name, peak in machine.peaks.items()},
        "versions": versions,
    }


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def append(directory: Path, **row: Any) -> None:
    """Add a line to the metrics."""
    with (directory / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rewind(directory: Path, step: int) -> None:
    """Drop the metrics of updates after `step`, which will be computed again, and a line that a kill cut short."""
    path = directory / METRICS
    if path.exists():
        kept = [row for row in read_metrics(directory) if row["step"] <= step]
        write_whole(path, "".join(json.dumps(row) + "\n" for row in kept))


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Every whole line of the metrics, in order."""
    rows: list[dict[str, Any]] = []
    for line in (directory / METRICS).read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
