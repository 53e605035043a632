"""What a case does to its process and to the machine: memory that it takes, programs that it starts, files that it opens."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn")
"""Events of Python by which a process starts another."""
OPENS = ("open", "os.listdir", "os.scandir")
OUTSIDE = "outside"
"""The directory beside a case's own in which nothing may be opened."""


@dataclass
class Seen:
    """What was noticed while a case ran."""

    started: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    bytes: int = 0
    """By how much the process grew at its peak."""


_watching: list[Seen] = []
"""The case that runs, if one does: a hook of Python cannot be taken back."""


@contextlib.contextmanager
def watched() -> Iterator[Seen]:
    """What the code inside does."""
    _hooked()
    seen, held = Seen(), _resident()
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)
        seen.bytes = _highest() - held


@contextlib.contextmanager
def place(baits: Mapping[str, bytes] = MappingProxyType({})) -> Iterator[Path]:
    """An empty directory for a case; beside it stands `outside` with files that no case may open."""
    with TemporaryDirectory(prefix="anyformer-fuzz-") as root:
        for name in ("inside", OUTSIDE):
            (Path(root) / name).mkdir()
        watching, _watching[:] = _watching[:], []
        for name, content in baits.items():
            (Path(root) / OUTSIDE / name).write_bytes(content)
        _watching[:] = watching
        yield Path(root) / "inside"


def _hook(event: str, values: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in STARTS:
        _watching[-1].started.append(f"{event} {os.fsdecode(values[0]) if values and values[0] else ''}".strip())
    elif event in OPENS and values and isinstance(values[0], str | bytes) and _is_outside(os.fsdecode(values[0])):
        _watching[-1].outside.append(os.fsdecode(values[0]))


def _is_outside(path: str) -> bool:
    parts = Path(os.path.realpath(path)).parts if "\0" not in path else ()
    return any(one.startswith("anyformer-fuzz-") and two == OUTSIDE for one, two in pairwise(parts))


_installed: list[bool] = []


def _hooked() -> None:
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)


def _resident() -> int:
    """Bytes in memory now, from which the highest figure begins anew."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def _highest() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024
