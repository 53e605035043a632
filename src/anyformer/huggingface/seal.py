"""Digests of an export's files, by which loading finds a flipped bit; transformers ignores their file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from os.path import isfile  # which no name is too long for
from pathlib import Path

from anyformer.files import sha256
from anyformer.huggingface.errors import HuggingFaceError

DIGESTS = "digests.json"
FORMAT = 1


def seal(directory: Path) -> None:
    """Write the size and SHA-256 of every file into `digests.json`; all files get the mode of a new file."""
    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    files = {name: {"bytes": (directory / name).stat().st_size, "sha256": sha256(directory / name)} for name in names}
    (directory / DIGESTS).write_text(json.dumps({"format": FORMAT, "files": files}, indent=2) + "\n", encoding="utf-8")
    for name in names:  # safetensors writes files that only their owner may read
        shutil.copymode(directory / DIGESTS, directory / name)


def check_seal(directory: Path, only: Iterable[str] | None = None) -> None:
    """Refuse a directory in which a file, or one of `only`, differs from its `digests.json`; without that file, accept it.

    This reads the files once more at the speed of SHA-256, 0.5 to 2 GB/s.
    """
    path = directory / DIGESTS
    if not isfile(path):
        return
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r} is not known here (known: {FORMAT})")
        files = {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in data["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HuggingFaceError(f"{path}: cannot be read ({error}); export again, or delete it") from None
    for name in files if only is None else [name for name in only if name in files]:
        size, digest = files[name]
        file = directory / name
        if not file.is_file():
            raise HuggingFaceError(f"{file}: missing, and {DIGESTS} names it; export again, or delete {DIGESTS}")
        if file.stat().st_size != size:
            problem = f"has {file.stat().st_size:,} bytes and had {size:,} when it was exported"
        elif sha256(file) != digest:
            problem = "is not as it was exported: its SHA-256 differs"
        else:
            continue
        raise HuggingFaceError(f"{file}: {problem}; export again, or delete {path} if the change is meant")
