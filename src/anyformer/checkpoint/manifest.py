"""Checkpoints: directories of safetensors with a manifest of SHA-256 digests, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.describe import UserError, json_data, read_foreign
from anyformer.files import disk_errors, is_inside, replacing_directory, sha256
from anyformer.files import writing as file_writing

MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
ARCHITECTURE = "architecture.json"
FORMAT = 2
DIGEST = "sha256"
"""The key of a manifest's own digest: SHA-256 of its text with this digest left out."""
UNSEALED = 1
"""The format of older manifests, which have no digest of their own."""
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class CheckpointError(UserError):
    """A checkpoint is missing, damaged or of another format; the message names the file."""


@dataclass(frozen=True)
class ManifestEntry:
    """The size and the SHA-256 of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The contents of a checkpoint: facts about it, and the size and digest of every file."""

    facts: Mapping[str, Any]
    files: Mapping[str, ManifestEntry]

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.bytes for entry in self.files.values())

    @property
    def validation_loss(self) -> float | None:
        """The held-out loss of these weights, None where they were not evaluated."""
        loss: float | None = self.facts.get("validation_loss")
        return loss


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory to fill and to `seal`; on success it is renamed to `directory`.

    A crash at any moment leaves either the whole checkpoint or none: a temporary directory is never read. An error of the disk
    is a `PlaceError`, and leaves older checkpoints whole.
    """
    with disk_errors(directory):
        with replacing_directory(directory) as partial:
            yield partial
        _sync(directory.parent)


def entry_of(path: Path) -> ManifestEntry:
    """The entry of a file that was written, after it is on the disk."""
    # safetensors lets only the owner read its files; here they follow the process's umask, as their directory does.
    path.chmod(path.parent.stat().st_mode & 0o666)
    _sync(path)
    return measured(path)


def entries_of(partial: Path, but: Collection[str] = ()) -> dict[str, ManifestEntry]:
    """The entries of all files in a directory, but of those whose names are given."""
    files = {path.relative_to(partial).as_posix(): path for path in sorted(partial.rglob("*")) if path.is_file()}
    return {name: entry_of(path) for name, path in files.items() if name not in but}


def seal(partial: Path, facts: Mapping[str, Any], entries: Mapping[str, ManifestEntry]) -> None:
    """Add the manifest of a directory whose files have these entries, and sync the directory to the disk."""
    _write_manifest(partial / MANIFEST, facts, entries)
    _sync(partial / MANIFEST)
    for folder in (*(path for path in partial.rglob("*") if path.is_dir()), partial):
        _sync(folder)


def add_facts(directory: Path, **facts: Any) -> None:
    """Add facts to the manifest of a written checkpoint, in one step: a crash leaves the old manifest or the new one."""
    manifest = read_manifest(directory)
    with file_writing(directory / MANIFEST) as partial:
        _write_manifest(partial, {**manifest.facts, **facts}, manifest.files)
        _sync(partial)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a checkpoint. Raises `CheckpointError` if it is missing or its structure is damaged."""
    path = directory / MANIFEST
    try:
        text = read_foreign(path)
    except FileNotFoundError:
        raise CheckpointError(f"{directory}: not a checkpoint, it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged ({error})") from None
    return manifest_in(text, str(path))


def manifest_in(text: str, path: str) -> Manifest:
    """The manifest that a text at this path is. Raises `CheckpointError` for one that is damaged."""
    try:
        data = json_data(text, finite=False)
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged ({error})") from None
    problem = _problem(data)
    if problem:
        raise CheckpointError(f"{path}: damaged ({problem})")
    if data["format"] not in (FORMAT, UNSEALED):
        known = f"{UNSEALED} and {FORMAT}"
        raise CheckpointError(f"{path}: format {data['format']} is not known here (known: {known}); use a matching version")
    if data.get(DIGEST) != (_digest(text, data[DIGEST]) if data["format"] == FORMAT else None):
        raise CheckpointError(f"{path}: changed since it was written, its SHA-256 differs from the one at its end")
    return Manifest(
        data["facts"], {name: ManifestEntry(entry["bytes"], entry["sha256"]) for name, entry in data["files"].items()}
    )


def _problem(data: Any) -> str:
    """An error in the structure of a manifest; empty if there is none."""
    if not isinstance(data, dict):
        return f"should be a table, got {type(data).__name__}"
    for key in ("format", "facts", "files"):
        if key not in data:
            return f"has no {key!r}"
    if data["format"] == FORMAT and not _is_digest(data.get(DIGEST)):
        return f"has no {DIGEST!r} of its own, of 64 digits"
    facts, files = data["facts"], data["files"]
    if not isinstance(facts, dict) or not isinstance(files, dict):
        return "'facts' and 'files' should be tables"
    loss, step = facts.get("validation_loss"), facts.get("step", 0)
    if loss is not None and type(loss) not in (int, float):
        return f"validation_loss should be a number, got {loss!r}"
    if type(step) is not int or step < 0:
        return f"step should be a whole number, got {step!r}"
    for name, entry in files.items():
        size, digest = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if not is_inside(name) or type(size) is not int or not _is_digest(digest):
            return f"the entry of {name!r} should have 'bytes' and a 'sha256' of 64 digits"
    return ""


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and bool(_SHA256.match(value))


def _digest(text: str, at: str = "") -> str:
    """SHA-256 of a manifest's text without its own digest, which is `at`."""
    return hashlib.sha256((text.replace(at, "") if at else text).encode()).hexdigest()


def measured(path: Path) -> ManifestEntry:
    """Size and digest of a file. Raises `CheckpointError` if it cannot be read."""
    try:
        return ManifestEntry(path.stat().st_size, sha256(path))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None


def _write_manifest(path: Path, facts: Mapping[str, Any], files: Mapping[str, ManifestEntry]) -> None:
    entries = {name: vars(entry) for name, entry in files.items()}
    data = {"format": FORMAT, "facts": dict(facts), "files": entries, DIGEST: ""}
    digest = _digest(_text(data))
    path.write_text(_text({**data, DIGEST: digest}), encoding="utf-8")


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2) + "\n"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
