"""A folder of the user's cache directory.

What is kept is never needed: a file that is damaged, or cannot be written, is as if it were not there.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from anyformer.describe import UserError
from anyformer.files import default_cache, write_text


@dataclass(frozen=True)
class Cache:
    """Plain data by digest, a file each, in a `folder` of the cache directory; beyond `files` or `nbytes` the oldest go."""

    folder: str
    files: int = 1000
    nbytes: int = 2**26

    @property
    def place(self) -> Path:
        return default_cache() / self.folder

    def read(self, key: str) -> Any:
        """What is kept under a digest; None if there is nothing, or not what was written."""
        try:
            return opened((self.place / key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write(self, key: str, data: Any) -> None:
        """Keep data under a digest; a cache directory that cannot be written is left alone."""
        with contextlib.suppress(OSError, UserError):
            self.place.mkdir(parents=True, exist_ok=True)
            write_text(self.place / key, sealed(data))
            for path in self._beyond():
                path.unlink(missing_ok=True)

    def _beyond(self) -> Iterator[Path]:
        """The oldest files, where there are too many."""
        found = sorted(((entry.stat(), entry.path) for entry in os.scandir(self.place)), key=lambda each: -each[0].st_mtime_ns)
        held = 0
        for number, (stat, path) in enumerate(found):
            held += stat.st_size
            if number >= self.files or held > self.nbytes:
                yield Path(path)


def sealed(data: Any) -> str:
    """Data as JSON below its digest."""
    text = json.dumps(data, separators=(",", ":"))
    return f"{sha256(text.encode()).hexdigest()}\n{text}"


def opened(text: str) -> Any:
    """The data of a text that `sealed` made. Raises `ValueError` if it is damaged."""
    digest, _, data = text.partition("\n")
    if sha256(data.encode()).hexdigest() != digest:
        raise ValueError("damaged")
    return json.loads(data)
