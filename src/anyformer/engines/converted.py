"""Models in the files of other engines, kept in the user's cache directory: an entry per digest of all that they depend on.

Entries are made under a lock, become visible whole, and of too many those unused for longest go. `ANYFORMER_ENGINES_GB` bounds
them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.cache import Cache, digest
from anyformer.cache.code import SETTLED
from anyformer.describe import DescriptionError, from_json, to_json
from anyformer.engines.engine import EngineRefusedError
from anyformer.files import default_cache, disk_errors, locked, sha256, write_text
from anyformer.model import Architecture

LIMIT = "ANYFORMER_ENGINES_GB"
USUAL = 20.0
"""Gigabytes that are kept where the user does not say."""
PARTIAL, ABANDONED = ".partial-", 24 * 3600
"""How the names of entries begin that are being made, and after how many seconds nobody makes them any more."""
DESCRIPTION, PROOF = "architecture.json", "proof.json"
DIGESTS = Cache("digests", files=2000)
"""SHA-256 of files by their path, size and times, so that a file is read for it once."""


@dataclass(frozen=True)
class ConvertedModel:
    """An entry: the description of a model, the proof of it, and where there is one a file in the engine's format."""

    directory: Path

    @property
    def architecture(self) -> Architecture:
        """What the file computes."""
        return from_json(Architecture, (self.directory / DESCRIPTION).read_text(encoding="utf-8"))

    @property
    def proof(self) -> Any:
        """The proof as it was kept; None without one."""
        try:
            return json.loads((self.directory / PROOF).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def keep(self, proof: Any) -> None:
        """Keep a proof."""
        write_text(self.directory / PROOF, json.dumps(proof, indent=2) + "\n")

    def file(self, suffix: str) -> Path:
        """The file in the engine's format."""
        return self.directory / f"model{suffix}"

    def used(self) -> None:
        """Note that it was used now."""
        with suppress(OSError):
            os.utime(self.directory)


@dataclass(frozen=True)
class ConvertedModels:
    """All entries."""

    @property
    def place(self) -> Path:
        return default_cache() / "engines"

    @property
    def limit(self) -> int:
        """Bytes of all entries together at most."""
        said = os.environ.get(LIMIT, "")
        try:
            return int(1e9 * float(said)) if said else int(1e9 * USUAL)
        except ValueError:
            raise EngineRefusedError(f"{LIMIT}={said!r} should be a number of gigabytes") from None

    def find(self, key: str, suffix: str | None) -> ConvertedModel | None:
        """The entry of a digest, if there is a whole one. `suffix`: of its file; None where it has none."""
        entry = ConvertedModel(self.place / key)
        if suffix is not None and not entry.file(suffix).exists():
            return None
        try:
            entry.architecture  # noqa: B018 (raises where it cannot be read)
        except (OSError, ValueError, DescriptionError):
            return None
        entry.used()
        return entry

    @contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Let one process at a time make an entry."""
        with disk_errors(self.place):
            self.place.mkdir(parents=True, exist_ok=True)
        with locked(self.place / f".{key[:24]}.lock"):
            yield

    def add(self, key: str, architecture: Architecture, nbytes: int, write: Callable[[ConvertedModel], None]) -> ConvertedModel:
        """A new entry, which `write` gives its file of about `nbytes`. Raises `EngineRefusedError` where there is no room."""
        free = shutil.disk_usage(self.place).free
        if nbytes > min(self.limit, free):
            raise EngineRefusedError(
                f"its file would take {nbytes / 1e9:,.1f} GB, {self.limit / 1e9:,.1f} GB are kept at most ({LIMIT}), and "
                f"{free / 1e9:,.1f} GB of {self.place} are free"
            )
        self._tidy(nbytes)
        partial = ConvertedModel(Path(tempfile.mkdtemp(prefix=PARTIAL, dir=self.place)))
        try:
            write(partial)
            write_text(partial.directory / DESCRIPTION, to_json(architecture))
            shutil.rmtree(self.place / key, ignore_errors=True)
            partial.directory.rename(self.place / key)
        finally:
            shutil.rmtree(partial.directory, ignore_errors=True)
        return ConvertedModel(self.place / key)

    def _tidy(self, coming: int) -> None:
        """Remove entries that were not used for longest until a new one has room, and what killed processes left."""
        held = 0
        for path in sorted(self.place.iterdir(), key=_last_used, reverse=True):
            if not path.is_dir():
                continue
            if path.name.startswith(PARTIAL):
                if time.time() - _last_used(path) > ABANDONED:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            held += sum(map(_size, path.rglob("*")))
            if held + coming > self.limit:
                shutil.rmtree(path, ignore_errors=True)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, read once while its size and times stay."""
    stat = path.stat()
    state = digest([str(path.absolute()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns])
    known = DIGESTS.read(state)
    if isinstance(known, str):
        return known
    found = sha256(path)
    if time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED:
        DIGESTS.write(state, found)
    return found


def _last_used(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
