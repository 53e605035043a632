"""The run's directory: its settings (`run.toml`), its machine (`environment.json`), the files read (`data.json`), the metrics
(`metrics.jsonl`), and at the end predicted beside measured figures (`summary.json`)."""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anyformer.data import Corpus
from anyformer.describe import UserError, from_toml, json_data, read_json, to_toml
from anyformer.files import disk_errors, read_text, write_text
from anyformer.training.precision import Host
from anyformer.training.run import Run

RUN = "run.toml"
METRICS = "metrics.jsonl"
ENVIRONMENT = "environment.json"
SUMMARY = "summary.json"
DATA = "data.json"
PICTURE = "loss.png"
PACKAGES = ("anyformer", "torch", "numpy", "tokenizers", "safetensors", "pydantic")


class RunDirectoryError(UserError):
    """A directory is not that of a run, or already holds one."""


def check_new(directory: Path) -> None:
    """Raise `RunDirectoryError` if a directory already holds a run."""
    if (directory / RUN).exists():
        raise RunDirectoryError(
            f"{directory}: already holds a run; continue it with --resume {directory}, or choose another --out"
        )


def create(directory: Path, run: Run, machine: Host, corpus: Corpus) -> None:
    """Write the first files of a run's directory."""
    write_text(directory / ENVIRONMENT, json.dumps(environment(machine), indent=2) + "\n")
    data = {"digest": corpus.digest, "sources": dict(corpus.sources)}
    write_text(directory / DATA, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    # Last, because a directory with run.toml is a run.
    write_run(directory, run)


def write_run(directory: Path, run: Run) -> None:
    """Put the resolved run into its directory."""
    write_text(directory / RUN, to_toml(run))


def read_data_facts(directory: Path) -> dict[str, Any]:
    """The digest of the data that the run began with, and a fingerprint of each file; empty if they were not recorded."""
    return _read_table(directory / DATA)


def read_summary(directory: Path) -> dict[str, Any]:
    """The summary of a finished run; empty where there is none that can be read."""
    return _read_table(directory / SUMMARY)


def _read_table(path: Path) -> dict[str, Any]:
    try:
        facts = read_json(path)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def read_run(directory: Path) -> Run:
    """The resolved run of a directory."""
    path = directory / RUN
    if not path.is_file():
        raise RunDirectoryError(f"{directory}: not a run directory, it has no {RUN}")
    return from_toml(Run, read_text(path, RunDirectoryError), str(path))


def environment(machine: Host) -> dict[str, Any]:
    """Facts of the machine and the installed packages that figures of this run depend on."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": machine.name,
        "cores": os.cpu_count(),
        "peak_flops": {name: round(peak) for name, peak in machine.peaks.items()},
        "versions": dict(_versions()),
    }


@functools.cache
def _versions() -> Mapping[str, str]:
    """The versions of `PACKAGES`; a process, which has loaded them, has no others later."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a package"
    return versions


def append(directory: Path, **row: Any) -> None:
    """Add a line to the metrics."""
    path = directory / METRICS
    with disk_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rewind(directory: Path, step: int) -> None:
    """Drop the metrics of updates after `step`, which will be computed again, and a line that a kill truncated."""
    path = directory / METRICS
    kept = "".join(json.dumps(row) + "\n" for row in read_metrics(directory) if row["step"] <= step)
    if path.exists() and path.read_bytes() != kept.encode():
        write_text(path, kept)


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Every whole line of the metrics, in order; none where nothing was written yet."""
    rows: list[dict[str, Any]] = []
    path = directory / METRICS
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            row = json_data(line, finite=False)
        except ValueError:
            continue
        if isinstance(row, dict) and {"kind", "step"} <= row.keys():
            rows.append(row)
    return rows
