"""Sounds as arrays of samples of one rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anyformer.data.file_places import FilePlace
from anyformer.data.formats import Advance
from anyformer.data.media import file_rows, medium_field
from anyformer.data.row import Bad, BadRecord, RecordRow, shown
from anyformer.sound import SoundError, fitted_sound, read_sound
from anyformer.sound.reading import Sound


def sound_file(path: FilePlace, advance: Advance, bad: Bad) -> Iterator[RecordRow]:
    """One record per file, its class the name of its directory: `folder/CLASS/file.wav`; with the `text` of a file of its name
    beside it, `file.txt`, if there is one."""
    yield from file_rows(path, "sound", "sounds", advance, bad)


def sound_field(row: RecordRow, name: str, rate: int) -> Sound:
    """A sound as (samples,) float32 of one channel at `rate` samples per second, usually from -1 to 1.

    The field holds the path of a file within the data set, from the record's directory; the bytes of one; both, as `{"bytes",
    "path"}`; or samples and their rate, as `{"array", "sampling_rate"}`: (samples,), or (channels, samples).
    """
    value = medium_field(row, name, "the sound")
    try:
        if isinstance(value, Path | bytes):
            return read_sound(value, rate)
        array, own = _samples(row, name, value)
        return fitted_sound(array, own, rate)
    except SoundError as error:
        reason = f"field {name!r}: {error.reason}" if error.path is None else f"{error.path}: {error.reason}"
        raise BadRecord(row.where, reason, error.remedy) from None


def _samples(row: RecordRow, name: str, value: Any) -> tuple[np.ndarray[Any, Any], int]:
    """The samples that a record holds as numbers, and how many a second has."""
    if not isinstance(value, Mapping) or "array" not in value:
        reason = f"field {name!r} should be the path of a sound, got {shown(value)}"
        raise BadRecord(row.where, reason, 'name a .wav or .flac, or write {"array": [...], "sampling_rate": 16000}')
    own = value.get("sampling_rate")
    if not isinstance(own, int) or isinstance(own, bool):
        reason = f"field {name!r} has samples, and as sampling_rate {shown(own)}"
        raise BadRecord(row.where, reason, "say how many samples a second has, as 16000")
    if isinstance(value["array"], np.ndarray):
        return value["array"], own
    try:
        array = np.asarray(value["array"])
        numbers = array.astype(np.float32)
    except (ValueError, TypeError):
        reason = f"field {name!r} should hold numbers as samples, got {shown(value['array'])}"
        raise BadRecord(row.where, reason, "write them as [0.0, 0.25, ...]") from None
    if array.dtype.kind in "iu" and array.size and (array.max() > 1 or array.min() < -1):
        reason = f"field {name!r} has whole numbers as samples, from {array.min()} to {array.max()}, of unknown width"
        raise BadRecord(row.where, reason, "divide them, by 32768 if they have 16 bits")
    return numbers, own


def within(row: RecordRow, name: str, sound: Sound, rate: int, seconds: float) -> Sound:
    """The sound, if it lasts so long at most."""
    if len(sound) > seconds * rate:
        reason = f"field {name!r} lasts {len(sound) / rate:.3g} s, and {seconds:g} s is the most"
        raise BadRecord(row.where, reason, "cut it, raise data.seconds, or leave such records out by data.skip_bad")
    return sound
