"""Disks that fail and files that change: nothing half is ever read, and the last good checkpoint is used.

    python -m benchmarks.faults

A disk that is full (ENOSPC), broken (EIO) or no longer permitted (EACCES) at 50 offsets of a save, counted in bytes written and
calls made: each must end in words, with the older checkpoint whole, and the save that is tried again must give the same files.
Then 200 files cut short and 1,000 bits flipped, over every file of a checkpoint and of prepared data: each must be noticed and
its file named, and the older checkpoint must be found.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import safetensors.torch
from benchmarks.kills import run_of
from rich.console import Console
from safetensors import SafetensorError

from anyformer import checkpoint
from anyformer.data.corpus import Corpus
from anyformer.files import PlaceError, write_text
from anyformer.text import DataError
from anyformer.training import train
from anyformer.training.held_out import corpus_of
from anyformer.training.trainer import OPTIMISER

RESULT = Path(__file__).parent / "results" / "faults.json"
FAULTS = (errno.ENOSPC, errno.EIO, errno.EACCES)
OFFSETS, CUTS, FLIPS = 50, 200, 1000
CALLS = ("mkdir", "rename", "replace", "fsync", "chmod")
"""Functions of `os` that a save calls besides writing; each counts as one page."""
DELETING = ("unlink", "rmdir")
"""Those that a lost permission forbids too."""
PAGE = 512


@dataclass
class Disk:
    """What is left of a disk until it fails with `number`: bytes, and a page for each call."""

    left: float
    number: int = 0
    spent: int = field(default=0, init=False)

    def spend(self, units: int) -> int:
        """How many of so many units still succeed."""
        granted = int(max(0, min(units, self.left)))
        self.left -= units
        self.spent += units
        return granted

    def error(self) -> OSError:
        return OSError(self.number, os.strerror(self.number))


class Raw(io.FileIO):
    """A file on such a disk."""

    disk: Disk

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        granted = self.disk.spend(len(view))
        super().write(view[:granted])
        if granted < len(view):
            raise self.disk.error()
        return granted


@contextmanager
def on(disk: Disk) -> Iterator[None]:
    """Within, files are written to this disk."""
    real = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *more: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+"):
            return real(file, mode, buffering, encoding, *more, **named)
        raw = Raw(file, mode.replace("b", "").replace("t", ""))
        raw.disk = disk
        buffered = io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding=encoding or "utf-8")

    def save_file(tensors: Any, path: Path) -> None:
        try:
            with opened(path, "wb") as file:
                file.write(safetensors.torch.save(tensors))
        except OSError as error:
            said = f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            raise SafetensorError(said) from None

    def counted(name: str) -> Callable[..., Any]:
        function = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            if disk.spend(PAGE) < PAGE:
                raise disk.error()
            return function(*given, **named)

        return call

    def forbidden(name: str) -> Callable[..., Any]:
        function = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            if disk.left <= 0:
                raise disk.error()
            return function(*given, **named)

        return call

    with ExitStack() as stack:
        stack.enter_context(mock.patch("io.open", opened))
        stack.enter_context(mock.patch("anyformer.checkpoint.model.save_file", save_file))
        for name in CALLS:
            stack.enter_context(mock.patch(f"os.{name}", counted(name)))
        for name in DELETING if disk.number == errno.EACCES else ():
            stack.enter_context(mock.patch(f"os.{name}", forbidden(name)))
        yield


@dataclass(frozen=True)
class Place:
    """A run with its last two checkpoints, and its prepared data."""

    run: Path
    data: Path

    @property
    def newest(self) -> Path:
        return checkpoint.directory_of(self.run, checkpoint.steps(self.run)[-1])

    @property
    def older(self) -> Path:
        return checkpoint.directory_of(self.run, checkpoint.steps(self.run)[-2])


def trained(place: Path, model: str = "dense") -> Place:
    """A run of a few updates."""
    run = run_of(model, place, steps=4, every=2)
    train(run, place / "run", console=Console(quiet=True))
    return Place(place / "run", corpus_of(run).directory)


def contents_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def fail(place: Place, offsets: int, number: int) -> list[str]:
    """Save at a disk that fails at so many offsets; a line for each offset at which something is not as it should be."""
    model, tokenizer, _ = checkpoint.load(place.newest)
    target = checkpoint.directory_of(place.run, 9)

    def save() -> None:
        given = checkpoint.contents(
            model, tokenizer=tokenizer, facts={"step": 9}, extra={"optimiser": dict(model.state_dict())}
        )
        checkpoint.write(given, target)

    save()
    whole = contents_of(target)
    checkpoint.drop(place.run, 8)
    with on(disk := Disk(float("inf"))):
        save()
    problems = [] if contents_of(target) == whole else ["a save that is watched gives other files"]
    checkpoint.drop(place.run, 8)
    for count in range(offsets):
        at = disk.spent * count // offsets
        what = f"{errno.errorcode[number]} at {at:,} of {disk.spent:,}"
        try:
            with on(Disk(at, number)):
                save()
            problems.append(f"{what}: no error")
        except PlaceError as error:
            if str(target) not in str(error):
                problems.append(f"{what}: names no place: {error}")
        except Exception as error:
            problems.append(f"{what}: {type(error).__name__}: {error}")
        # Where all is written and only the last sync of the parent fails, the new one is there and whole.
        found, damaged = checkpoint.latest(place.run)
        if damaged or found not in (place.older, place.newest, target):
            problems.append(f"{what}: {found}, damaged {damaged}")
        if found == target and contents_of(target) != whole:
            problems.append(f"{what}: the new one is not whole")
        checkpoint.sweep(place.run)
        save()
        if contents_of(target) != whole:
            problems.append(f"{what}: the save after it gives other files")
        checkpoint.drop(place.run, 8)
    return problems


def damage(place: Place, cuts: int, flips: int, seed: int = 0) -> list[str]:
    """Cut files short and flip bits, one at a time; a line for each change that is not noticed with its file."""
    chance, problems = random.Random(seed), []
    newest, older = place.newest, place.older
    found = [path for folder in (newest, place.data) for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [path for path in found if path.stat().st_size]
    for trial in range(cuts + flips):
        path = files[trial % len(files)]
        good = path.read_bytes()
        at = chance.randrange(len(good))
        if trial < cuts:
            bad, what = good[:at], f"{path.name} cut at {at}"
        else:
            bit = 1 << chance.randrange(8)
            bad, what = good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :], f"{path.name}: bit {bit} of byte {at} flipped"
        path.write_bytes(bad)
        try:
            problem = _noticed(path, newest, older, place)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            path.write_bytes(good)
        if problem:
            problems.append(f"{what}: {problem}")
    return problems


def _noticed(path: Path, newest: Path, older: Path, place: Place) -> str:
    """What is wrong with how a damaged file is met; empty if nothing."""
    if path.is_relative_to(newest):
        found, damaged = checkpoint.latest(place.run, also=(OPTIMISER,))
        named = bool(damaged) and str(path) in damaged[0]
        return "" if found == older and named else f"found {found}, said {damaged}"
    try:
        Corpus.open(place.data, verify=True)
    except DataError as error:
        return "" if path.name in str(error) else f"not named: {error}"
    return "not noticed"


def main() -> None:
    """All of it, and the result."""
    with tempfile.TemporaryDirectory() as place:
        os.environ["ANYFORMER_CACHE"] = f"{place}/cache"
        made = trained(Path(place))
        disks = {errno.errorcode[number]: fail(made, OFFSETS, number) for number in FAULTS}
        changed = damage(made, CUTS, FLIPS)
    for problem in [*(line for lines in disks.values() for line in lines), *changed]:
        print(problem)
    data = {
        "offsets": OFFSETS, "failures_of_the_disk": disks,
        "files": "every file of a checkpoint and of prepared data", "cuts": CUTS, "flips": FLIPS, "not_noticed": changed,
    }  # fmt: skip
    write_text(RESULT, json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
