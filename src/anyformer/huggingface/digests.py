"""Digests of an export's files, by which loading finds a flipped bit; transformers ignores their file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from os.path import isfile  # which no name is too long for
from pathlib import Path
from typing import Any

from anyformer.describe import json_data, read_foreign
from anyformer.files import is_inside, sha256
from anyformer.huggingface.errors import HuggingFaceError

DIGESTS = "digests.json"
FORMAT = 1


def write_digests(directory: Path) -> None:
    """Write the size and SHA-256 of every file into `digests.json`; all files get the mode of a new file."""
    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    files = {name: {"bytes": (directory / name).stat().st_size, "sha256": sha256(directory / name)} for name in names}
    (directory / DIGESTS).write_text(json.dumps({"format": FORMAT, "files": files}, indent=2) + "\n", encoding="utf-8")
    for name in names:  # safetensors writes files that only their owner may read
        shutil.copymode(directory / DIGESTS, directory / name)


def check_digests(directory: Path, only: Iterable[str] | None = None) -> None:
    """Refuse a directory in which a file, or one of `only`, differs from its `digests.json`; without that file, accept it.

    This reads the files once more at the speed of SHA-256, 0.5 to 2 GB/s.
    """
    path = directory / DIGESTS
    if not isfile(path):
        return
    try:
        files = _entries(json_data(read_foreign(path)))
    except (OSError, ValueError) as error:
        raise HuggingFaceError(f"{path}: cannot be read ({error}); export again, or delete it") from None
    for name in files if only is None else [name for name in only if name in files]:
        size, digest = files[name]
        file = directory / name
        if not isfile(file):
            raise HuggingFaceError(f"{file}: missing, and {DIGESTS} names it; export again, or delete {DIGESTS}")
        if file.stat().st_size != size:
            problem = f"has {file.stat().st_size:,} bytes and had {size:,} when it was exported"
        elif sha256(file) != digest:
            problem = "is not as it was exported: its SHA-256 differs"
        else:
            continue
        raise HuggingFaceError(f"{file}: {problem}; export again, or delete {path} if the change is meant")


def _entries(data: Any) -> dict[str, tuple[int, str]]:
    """The size and SHA-256 of each file, by a name inside the directory; a `ValueError` says what is wrong."""
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("files"), dict):
        raise ValueError(f"should be a table of format {FORMAT}, with a table 'files'")
    found = {}
    for name, entry in data["files"].items():
        size, digest = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if not is_inside(name) or type(size) is not int or not isinstance(digest, str):
            raise ValueError(f"the entry of {name[:80]!r} should be a file in the directory, with 'bytes' and 'sha256'")
        found[name] = size, digest
    return found
