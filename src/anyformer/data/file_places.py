"""Where a file of data is: a path of this machine, or an object of a store, of which readers ask the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, TypeAlias

from anyformer import stores


@dataclass(frozen=True)
class StoredFile:
    """An object of a store, with the words of a path."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """What stands behind the last `/`."""
        return self._pure.name

    @property
    def suffix(self) -> str:
        """The last ending of its name."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All endings of its name."""
        return self._pure.suffixes

    def open(self, mode: str = "rb") -> AbstractContextManager[IO[bytes]]:
        """Its bytes, read by ranges."""
        assert mode == "rb", "data is read"
        return stores.opened(self.url)

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.url.partition("://")[2].partition("?")[0])


FilePlace: TypeAlias = Path | StoredFile


def size_of(place: FilePlace) -> int:
    """Bytes of a file."""
    return stores.size_of(place.url) if isinstance(place, StoredFile) else place.stat().st_size


def folder_of(place: FilePlace) -> Path:
    """The directory in which relative paths begin; of an object the working directory, since it stands in none."""
    return Path() if isinstance(place, StoredFile) else place.parent


@contextmanager
def at_hand(place: FilePlace) -> Iterator[Path]:
    """The path of a file for a library that maps it: its own, or that of a copy which lasts as long as the block."""
    if not isinstance(place, StoredFile):
        yield place
        return
    with TemporaryDirectory(prefix="anyformer-") as folder:
        path = Path(folder, place.name or "object")
        stores.copied(place.url, path)
        yield path
