"""Files that records name or hold: a path within the data set, the bytes of a file, or both as the `datasets` library stores
them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyformer.data.fields import field_of, whole_text
from anyformer.data.file_places import FilePlace, StoredFile, size_of
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.data.sources import is_inside
from anyformer.text.errors import DataError


def medium_field(row: RecordRow, name: str, what: str) -> Any:
    """The path of a file within the data set, from the record's directory; the bytes of one; or another value as it is.

    `{"bytes": ..., "path": ...}` stands for its bytes, or where it has none for its path. `what` it is, for errors.
    """
    value = field_of(row, name)
    if isinstance(value, Mapping) and value.keys() & {"bytes", "path"} and "array" not in value:
        held, path = value.get("bytes"), value.get("path")
        value = path if held is None else held
        if not isinstance(value, str | bytes):
            reason = f"field {name!r} has neither bytes nor the path of {what}, but {shown(value)}"
            raise BadRecord(row.where, reason, "give it one of them")
    if not isinstance(value, str):
        return value
    path = row.folder / whole_text(row, name, value)
    root = row.root or row.folder
    if not is_inside(path, root):
        raise BadRecord(
            row.where,
            f"field {name!r} is {shown(value)}, which leads out of the data set {root}",
            f"copy {what} into it, or name the directory that holds both in `paths`",
        )
    return path


def only_here(place: FilePlace, what: str) -> Path:
    """The path of a file whose content is read by itself; `DataError` of an object of a store."""
    if isinstance(place, StoredFile):
        remedy = "copy them to it, and name the copy, or put them into .tar or Parquet files"
        raise DataError(f"{place}: {what} are read from the disk of this machine; {remedy}")
    return place


def file_row(place: FilePlace, field: str, what: str) -> tuple[RecordRow, int]:
    """The record of a file that is one, and its bytes: its name, and as `label` that of its directory."""
    path = only_here(place, what)
    return RecordRow(str(path), {field: path.name, "label": path.parent.name}, path.parent), size_of(path)
