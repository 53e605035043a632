"""`rows`: the raw records of a file, whatever its format, one at a time; `find_records`: the files of some paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anyformer.data.builtin import SOURCES
from anyformer.data.compressed import SUFFIXES as COMPRESSED
from anyformer.data.compressed import is_compressed, suffix_of
from anyformer.data.fields import choice_field, field_of, number_field, text_field, texts_field, whole_field
from anyformer.data.file_places import folder_of
from anyformer.data.formats import READERS, Advance, Reader
from anyformer.data.images import SUFFIXES as IMAGES
from anyformer.data.images import image_field, image_file
from anyformer.data.row import Bad, BadRecord, RecordRow, refuse
from anyformer.data.skips import Skips
from anyformer.data.sound import sound_field, sound_file
from anyformer.data.sources import SourceFile, find_sources, real
from anyformer.data.tar import tar
from anyformer.data.turns import turns_field
from anyformer.sound import SUFFIXES as SOUNDS
from anyformer.text.errors import DataError

__all__ = [
    "BadRecord",
    "RecordRow",
    "Skips",
    "choice_field",
    "field_of",
    "find_records",
    "image_field",
    "number_field",
    "rows",
    "sound_field",
    "text_field",
    "texts_field",
    "turns_field",
    "whole_field",
]
_READERS: Mapping[str, Reader] = {
    **READERS,
    ".tar": tar,
    **dict.fromkeys(IMAGES, image_file),
    **dict.fromkeys(SOUNDS, sound_file),
}
PACKED = (".jsonl", ".json", ".csv", ".tsv")
"""Files of records that may be compressed."""
RECORD_GLOBS = (
    *(f"*{suffix}" for suffix in (*READERS, *IMAGES)),
    *(f"*{suffix}{packed}" for suffix in PACKED for packed in COMPRESSED),
)
"""Files of records that are read in a directory when no glob is given; kinds of data about sound name others."""


def rows(source: SourceFile | str | Path, advance: Advance = lambda count: None, bad: Bad = refuse) -> Iterator[RecordRow]:
    """Every record of a file, in order, with memory for a few; `advance` is called with bytes read.

    A record that cannot be read is given to `bad`, which raises it or counts it (`Skips.add`); a file that cannot be read at
    all is a `DataError`. A string or path stands for all that `find_records` finds there.
    """
    if not isinstance(source, SourceFile):
        for each in find_records([str(source)]):
            yield from rows(each, advance, bad)
        return
    if source.origin:
        yield from SOURCES[source.origin].rows(source, advance)
        return
    suffix = suffix_of(source.path)
    reader = _READERS.get(suffix) if suffix in PACKED or not is_compressed(source.path) else None
    if reader is None:
        known = ", ".join(_READERS)
        raise DataError(
            f"{source.path}: records are read from {known}, of which {', '.join(PACKED)} may be compressed "
            f"({', '.join(COMPRESSED)}); convert it, or name such files with `glob`"
        )
    try:
        found = reader(source.path, advance, bad)
        yield from found if source.root in (None, folder_of(source.path)) else (replace(row, root=source.root) for row in found)
    except OSError as error:
        raise DataError(f"{source.path}: cannot be read ({error.strerror})") from None


def find_records(paths: Iterable[str], globs: Sequence[str] = ()) -> list[SourceFile]:
    """The files of `paths` in order, each once: files, directories, and the words of built-in records (`SOURCES`)."""
    found: dict[tuple[str, str], SourceFile] = {}
    for path in paths:
        sources = SOURCES[path].sources() if path in SOURCES else find_sources([path], globs or RECORD_GLOBS)
        for source in sources:
            found.setdefault((source.origin, real(source.path)), source)
    return list(found.values())
