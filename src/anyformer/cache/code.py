"""Digests of the package's own files, on which everything depends that it works out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from anyformer.cache.folder import Cache

PACKAGE = Path(__file__).parents[1]
SHIPPED = PACKAGE / "answers.zip"
"""Answers that the package was shipped with: nothing else is made of them."""
READ = Cache("code", files=20)
SETTLED = 2 * 10**9
"""Nanoseconds after which a file that is written once more has another time, on any file system."""
File = tuple[str, int, int, int]
"""A file of the package: its path in it, its size, and when it was written and last touched, in nanoseconds."""


def digest(facts: Any) -> str:
    """A digest of plain data, under which what follows from it is kept."""
    return sha256(json.dumps(facts).encode()).hexdigest()


def files(*rooms: str, package: Path = PACKAGE) -> list[File]:
    """Every file of these rooms of the package, or without rooms of all of it, as it stands now; pages, which no answer depends
    on and no installation has, are none."""
    begin = len(str(package)) + 1
    starts = [package / room for room in rooms] or [package]
    return sorted(
        (entry.path[begin:], stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        for start in starts
        for entry in _walked(str(start))
        for stat in (entry.stat(),)
        if entry.name != SHIPPED.name and not entry.name.endswith(".md")
    )


def contents(package: Path = PACKAGE) -> str:
    """A digest of every byte of the package, the same wherever it is installed; read once per state of its files."""
    found = files(package=package)
    known = READ.read(state := digest([str(package), found]))
    if isinstance(known, str):
        return known
    total = sha256()
    for name, size, *_ in found:
        total.update(f"{name} {size}\n".encode())
        total.update((package / name).read_bytes())
    latest = max(max(written, touched) for _, _, written, touched in found)
    if time.time_ns() - latest > SETTLED and files(package=package) == found:
        READ.write(state, total.hexdigest())
    return total.hexdigest()


def _walked(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walked(entry.path)
        else:
            yield entry
