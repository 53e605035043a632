"""The digests of a checkpoint's files, checked by all processes that read it together, each its part of the bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from os.path import isfile  # which no name is too long for
from pathlib import Path
from typing import Protocol, TypeVar

from anyformer.checkpoint.manifest import (
    ARCHITECTURE,
    MANIFEST,
    WEIGHTS,
    CheckpointError,
    Manifest,
    ManifestEntry,
    measured,
    read_manifest,
)
from anyformer.checkpoint.pieces import file_of

MODEL = (WEIGHTS, ARCHITECTURE)
"""The files that every checkpoint has."""
REMEDY = "restore it from a copy, or take an older checkpoint"
_SAID = 3
"""Damaged files that an error names."""
T = TypeVar("T")


class Checkers(Protocol):
    """The processes that check a checkpoint together, seen from one of them: each calls every method in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def same(self, make: Callable[[], T]) -> T:
        """What the first process makes, for all of them; the `UserError` that it raised, in all of them."""

    def every(self, value: T) -> list[T]:
        """The values of all processes, in order."""


@dataclass(frozen=True)
class OneChecker:
    """The only process that checks."""

    rank: int = 0
    size: int = 1

    def same(self, make: Callable[[], T]) -> T:
        return make()

    def every(self, value: T) -> list[T]:
        return [value]


BY_ONE = OneChecker()


def verify(directory: Path, also: tuple[str, ...] = (), among: Checkers = BY_ONE) -> Manifest:
    """The manifest, after checking size and digest of every file; a `CheckpointError` names those that differ.

    It must list the files of a model and those in `also`, so that nothing is loaded without a digest. `among`: the processes
    that divide the files; all of them raise the same error.
    """
    manifest = among.same(partial(_listed, directory, also))
    own = shares_by_size(manifest.files, among.size)[among.rank]
    found = {name: said for each in among.every(_problems(directory, own, among.size)) for name, said in each.items()}
    problems = [found[name] for name in manifest.files if name in found]
    if problems:
        more = f"; and {len(problems) - _SAID} more files" if len(problems) > _SAID else ""
        raise CheckpointError(f"{'; '.join(problems[:_SAID])}{more}: {REMEDY}")
    return manifest


def shares_by_size(files: Mapping[str, ManifestEntry], count: int) -> list[dict[str, ManifestEntry]]:
    """Files in so many shares of about as many bytes: each, the largest first, goes to the smallest share so far."""
    shares: list[dict[str, ManifestEntry]] = [{} for _ in range(count)]
    sizes = [0] * count
    for name, entry in sorted(files.items(), key=lambda item: (-item[1].bytes, item[0])):
        smallest = sizes.index(min(sizes))
        shares[smallest][name] = entry
        sizes[smallest] += entry.bytes
    return shares


def _listed(directory: Path, also: tuple[str, ...]) -> Manifest:
    """The manifest, which lists all that must be there, and all that would be read."""
    manifest = read_manifest(directory)
    listed = {file_of(name) for name in manifest.files}
    for name in (*MODEL, *also):
        if name not in listed:
            raise CheckpointError(f"{directory / MANIFEST}: damaged (does not list {name})")
    for path in directory.glob("*.safetensors"):
        if path.name not in manifest.files and file_of(path.name) in listed:
            raise CheckpointError(f"{path}: is not listed in {MANIFEST}, and would be read with the listed files: remove it")
    return manifest


def _problems(directory: Path, files: Mapping[str, ManifestEntry], processes: int) -> dict[str, str]:
    """What is wrong with each file that differs; `processes`: so many share this machine at most."""
    # Hashing leaves Python's lock to others, so threads help where a process has cores for them.
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // processes)) as threads:
        said = threads.map(lambda name: _problem_of(directory / name, files[name]), files)
        return {name: each for name, each in zip(files, said, strict=True) if each}


def _problem_of(path: Path, entry: ManifestEntry) -> str:
    """In which way a file differs from its entry; empty if it does not."""
    if not isfile(path):
        return f"{path}: missing"
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            return f"{path}: truncated or grown, {size} bytes where the manifest says {entry.bytes}"
        if measured(path).sha256 != entry.sha256:
            return f"{path}: changed since it was written, its SHA-256 differs from the manifest"
    except OSError as error:
        return f"{path}: cannot be read ({error.strerror})"
    except CheckpointError as error:
        return str(error)
    return ""
