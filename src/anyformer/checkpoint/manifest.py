"""Checkpoints that cannot lie: a directory of safetensors with a manifest of SHA-256 digests, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.describe import UserError

MANIFEST = "manifest.json"
FORMAT = 1
_PARTIAL = ".partial-"


class CheckpointError(UserError):
    """A checkpoint is missing, damaged or of another kind; the message names the file."""


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint directory holds: facts about it, and the size and digest of every file."""

    facts: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]


@contextlib.contextmanager
def writing(directory: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Give a temporary directory to fill; on success it is sealed with a manifest, synced and renamed to `directory`.

    A crash at any moment leaves either the whole checkpoint or none: a directory called `.partial-...` is never read.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    for stale in directory.parent.glob(f"{_PARTIAL}{directory.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    partial = directory.parent / f"{_PARTIAL}{directory.name}-{uuid.uuid4().hex[:8]}"
    partial.mkdir()
    try:
        yield partial
        names = sorted(path.name for path in partial.iterdir())
        files = {name: {"bytes": (partial / name).stat().st_size, "sha256": digest(partial / name)} for name in names}
        text = json.dumps({"format": FORMAT, "facts": dict(facts), "files": files}, indent=2) + "\n"
        (partial / MANIFEST).write_text(text, encoding="utf-8")
        for path in partial.iterdir():
            _sync(path)
        _sync(partial)
        if directory.exists():
            shutil.rmtree(directory)
        partial.rename(directory)
        _sync(directory.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a checkpoint; refuses a directory without one."""
    path = directory / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise CheckpointError(
                f"{path}: format {data['format']} is not known here (known: {FORMAT}); use a matching version"
            )
        return Manifest(data["facts"], data["files"])
    except FileNotFoundError:
        raise CheckpointError(f"{directory}: not a checkpoint, it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: damaged ({error})") from None


def verify(directory: Path) -> Manifest:
    """The manifest, once every file has been found with its size and digest; `CheckpointError` names the first that is not."""
    manifest = read_manifest(directory)
    for name, entry in manifest.files.items():
        path = directory / name
        if not path.is_file():
            raise CheckpointError(f"{path}: missing")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise CheckpointError(f"{path}: truncated or grown, {size} bytes where the manifest says {entry['bytes']}")
        if digest(path) != entry["sha256"]:
            raise CheckpointError(f"{path}: changed since it was written, its SHA-256 differs from the manifest")
    return manifest


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
