"""Failures of a training job: how often accelerators fail and why, how long the job then stands still, what a save costs."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from anyformer.describe import UserError, did_you_mean

HOUR, DAY = 3600.0, 86400.0
HOST_COPY = 1e9
"""Bytes/s at which one accelerator copies its state to the host before training goes on, where saves are in the background.

Assumed. ByteCheckpoint (arXiv 2407.20143, table 8) reports a pause of 0.59 s for a model of 405 B parameters on 8,960 GPUs; at
12 bytes per parameter that is 0.9 GB/s for each.
"""
STORAGE = 1e8
"""Bytes/s of the storage per accelerator of the job; assumed. Llama 3 had 2 TB/s for 16,384 (arXiv 2407.21783, 3.3.1)."""


@dataclass(frozen=True)
class Cause:
    """Why a job was interrupted: the share of all failures, and whether a node is out for repair after it."""

    name: str
    share: float
    repaired: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share of cause {self.name!r} is a share of all failures, from 0 to 1, got {self.share}")


@dataclass(frozen=True)
class Failures:
    """How often one accelerator fails, and how long the job then stands still; all times in seconds.

    A failure is whatever stops the job, its causes in hosts, network and software counted with it: the mean time between
    failures of a device is that of the job times its devices. Devices fail independently, at exponential times, so that the job
    fails as a Poisson process with M = mtbf / devices; while it waits for a repair nothing fails.
    """

    mtbf: float
    """Mean time between failures of one accelerator, not of a node."""
    detect: float = 600.0
    """From a failure until it is noticed. By default the time after which PyTorch gives a collective of NCCL up; MegaScale
    reports less than this on average, diagnosis included (arXiv 2402.15627, section 6.3)."""
    restart: float = 300.0
    """From then until the checkpoint is read: scheduling, starting processes (5 min: Kokolis et al. 2025, arXiv 2410.21680)."""
    repair: float = DAY
    """Mean time until a node that failed is back; assumed."""
    spares: int | None = None
    """Nodes that stand by, one of which replaces a failed node at once; None: there is always one."""
    causes: tuple[Cause, ...] = ()
    """Why jobs fail; empty: every failure takes a node out."""

    def __post_init__(self) -> None:
        if not (self.mtbf > 0 and math.isfinite(self.mtbf)):
            raise UserError(
                f"mtbf is the mean time between failures of one accelerator, a number of seconds above 0, got {self.mtbf}; "
                f"Llama 3 reports {PUBLISHED['llama-3.1-405b'].device_mtbf:.3g}"
            )
        for name in ("detect", "restart", "repair"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise UserError(f"{name} is a number of seconds, 0 or more, got {getattr(self, name)}")
        if self.spares is not None and self.spares < 0:
            raise UserError(f"spares is a number of nodes, 0 or more, got {self.spares}; None where there is always one")
        if self.causes and abs(sum(cause.share for cause in self.causes) - 1) > 1e-6:
            raise UserError(f"shares of causes add up to 1, got {sum(cause.share for cause in self.causes):.6g}")

    @property
    def replaced(self) -> float:
        """The share of failures after which a node is out for repair."""
        return sum(cause.share for cause in self.causes if cause.repaired) if self.causes else 1.0


@dataclass(frozen=True)
class Saves:
    """What one checkpoint costs a job, in seconds."""

    pause: float
    """Training waits this long for a save."""
    write: float
    """From the beginning of a save until the storage has it: a failure before falls back to the checkpoint before it."""
    load: float
    """Reading it when training starts again."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not (getattr(self, each.name) >= 0 and math.isfinite(getattr(self, each.name))):
                raise UserError(f"{each.name} of a save is a number of seconds, 0 or more, got {getattr(self, each.name)}")
        if self.write < self.pause:
            raise UserError(f"a save of {self.write:g} s cannot pause training for longer, {self.pause:g} s: raise `write`")


def saves(whole: float, fullest: float, storage: float, *, background: bool, pause: float | None = None) -> Saves:
    """What a checkpoint of `whole` bytes costs on a storage of `storage` bytes/s, of which the fullest rank holds `fullest`.

    write = load = whole / storage, every byte stored and read once. Training waits for the writing, or, in the background, for
    the copy to the host alone, fullest / HOST_COPY; or `pause` seconds, where that is known.
    """
    write = whole / storage
    if pause is None:
        pause = fullest / HOST_COPY if background else write
    return Saves(pause, max(write, pause) if background else pause, write)


@dataclass(frozen=True)
class TrainingJob:
    """A training job on a number of accelerators, as its failures see it."""

    devices: int
    failures: Failures
    saves: Saves

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise UserError(f"a job has 1 accelerator or more, got {self.devices}")

    @property
    def mtbf(self) -> float:
        """M, seconds between failures of the whole job: that of a device over their number, the least of so many times."""
        return self.failures.mtbf / self.devices

    @property
    def start(self) -> float:
        """Seconds from noticing a failure until training goes on."""
        return self.failures.restart + self.saves.load

    @property
    def recovery(self) -> float:
        """R, seconds from a failure until training goes on, with a node at hand and without another failure."""
        return self.failures.detect + self.start

    @property
    def late(self) -> float:
        """v, seconds after training goes on until the storage has a checkpoint."""
        return self.saves.write - self.saves.pause


@dataclass(frozen=True)
class Published:
    """Interruptions that the authors of a run, or of a cluster, report."""

    name: str
    source: str
    hardware: str
    devices: int
    failures: int
    days: float
    causes: tuple[Cause, ...]
    row: Mapping[str, Any]
    """The whole table of published_failures.toml."""

    @property
    def device_mtbf(self) -> float:
        """Seconds between failures of one accelerator: devices * time / failures."""
        return self.devices * self.days * DAY / self.failures


def _read(name: str, row: dict[str, Any]) -> Published:
    """One table of published_failures.toml; the shares of causes are those of their counts."""
    total = sum(count for _, count, _ in row.get("causes", ()))
    causes = tuple(Cause(cause, count / total, repaired) for cause, count, repaired in row.get("causes", ()))
    given = {key: row[key] for key in ("source", "hardware", "devices", "failures", "days")}
    return Published(name, **given, causes=causes, row=MappingProxyType(row))


def _published() -> Mapping[str, Published]:
    text = files("anyformer.planning").joinpath("published_failures.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: _read(name, row) for name, row in tomllib.loads(text).items()})


PUBLISHED: Mapping[str, Published] = _published()


def causes_of(name: str) -> tuple[Cause, ...]:
    """The causes that the authors of a published run report."""
    known = {each: run.causes for each, run in PUBLISHED.items() if run.causes}
    if name not in known:
        raise UserError(f"no causes of failures are published of {name!r}{did_you_mean(name, known)}")
    return known[name]
