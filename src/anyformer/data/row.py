"""`RecordRow`: one raw record of a file, before anybody says what its fields mean; and the error about one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.text.errors import DataError

_SHOWN = 60


@dataclass(frozen=True)
class RecordRow:
    """`where`: `file:line`, or `file#number` from 0 where a file has no lines; `folder`: where relative paths in it begin.

    `root`: the directory that no path in it leads out of; None: the folder.
    """

    where: str
    values: Mapping[str, Any]
    folder: Path = Path()
    root: Path | None = None


class BadRecord(DataError):  # noqa: N818 (a record as much as an error)
    """One record cannot be used; `where` it is and the `reason` stand apart, for counting."""

    def __init__(self, where: str, reason: str, remedy: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"{where}: {reason}; {remedy}")


Bad = Callable[[BadRecord], None]
"""What happens with a record that cannot be read: it is raised, or counted (`Skips.add`)."""


def refuse(error: BadRecord) -> None:
    """No record may be bad."""
    raise error


def shown(value: object) -> str:
    """A value as an error shows it: shortened, with its type."""
    text = repr(value) if not isinstance(value, str | bytes) else repr(value[: 2 * _SHOWN])
    return f"{text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'} ({type(value).__name__})"
