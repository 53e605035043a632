"""The one door for files of sound: named formats, so many samples, regular files, and every failure of a decoder an error for
people. By soundfile (libsndfile) and soxr (the extra `audio`)."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import exists, getsize, isfile  # which no name is too long for, and no NUL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from anyformer.describe import UserError

Sound = NDArray[np.float32]
"""The samples of one channel, (samples,), usually from -1 to 1."""
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus")
"""How the names of files of sound end."""
FORMATS = {"WAV": "WAV", "WAVEX": "WAV", "FLAC": "FLAC", "OGG": "OGG", "MP3": "MP3", "MPEG": "MP3"}
"""The formats that are read, by libsndfile's names: of its others one opens a second file, and most are nobody's data."""
SAMPLES = 2**25
"""Samples of a sound at most, before and after its rate is changed: 35 minutes at 16 kHz, 128 MiB."""
BYTES = 2**28
"""Bytes of a file at most."""
CHANNELS, SLOWEST, FASTEST = 32, 1000, 384_000
"""Channels, and samples per second."""
LOUDEST = 2.0**16
"""The greatest sample: files of floating-point numbers may hold what 16-bit ones do."""
_KNOWN = (b"RIFF", b"fLaC", b"OggS")
_GUESSED = (b"ID3", b"\xff\xe2", b"\xff\xe3", b"\xff\xf2", b"\xff\xf3", b"\xff\xfa", b"\xff\xfb")
"""First bytes of the formats; the second are of MP3, which libsndfile knows last: before, it looks for another file beside
it, `._NAME`, and where it has no name for `._` in the working directory."""
_BLOCK = 2**20
"""Numbers that are decoded at a time."""
_AGAIN = "save it again as WAV or FLAC"


class SoundError(UserError):
    """A file is no sound that is read; the `path` (None of bytes), the `reason` and the `remedy` stand apart."""

    def __init__(self, path: Path | None, reason: str, remedy: str) -> None:
        self.path, self.reason, self.remedy = path, reason, remedy
        super().__init__(f"{path or 'a sound in bytes'}: {reason}; {remedy}")


def read_sound(source: Path | str | bytes, rate: int) -> Sound:
    """The sound of a file, or of a file's bytes: the mean of its channels at `rate` samples per second, (samples,) float32."""
    path = None if isinstance(source, bytes) else Path(source)
    first = _check_file(path, source if isinstance(source, bytes) else b"")
    try:
        files = importlib.import_module("soundfile")
    except (ImportError, OSError):  # the second where libsndfile is missing
        remedy = "pip install 'anyformer[audio]'"
        raise SoundError(path, "sounds are read by soundfile, which is not installed", remedy) from None
    try:
        with _apart(source, first) as place, files.SoundFile(place) as file:
            _check(path, file, rate)
            sound, own = _decoded(path, file), int(file.samplerate)
    except UserError:
        raise
    except Exception as error:  # decoders raise whatever their bytes lead them to
        raise SoundError(path, f"damaged, or no sound ({type(error).__name__}: {error})", _AGAIN) from None
    return _resampled(path, sound, own, rate)


def read_whole(file: Path | str, rate: int, longest: int, hears: str) -> Sound:
    """The samples of a file that lasts no longer than what `hears` it: `longest` samples; else a `UserError`."""
    sound = read_sound(Path(file), rate)
    if len(sound) > longest:
        raise UserError(
            f"{file}: lasts {len(sound) / rate:.3g} s, and {hears} hears {longest / rate:.3g} s at most: cut it into shorter "
            "files"
        )
    return sound


def fitted_sound(samples: NDArray[Any], own: int, rate: int) -> Sound:
    """Samples (samples,) or (channels, samples) of rate `own` as one channel at `rate`; whole numbers are scaled by their
    type. `SoundError` where they are no sound."""
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "iuf" or (samples.ndim == 2 and len(samples) > CHANNELS):
        reason = f"numbers of shape {samples.shape} and type {samples.dtype} are no sound"
        raise SoundError(None, reason, "give samples, or channels of samples")
    _check_numbers(None, samples.shape[-1], own, rate)
    if samples.dtype.kind != "f":
        bounds = np.iinfo(samples.dtype)
        middle = 0 if samples.dtype.kind == "i" else (int(bounds.max) + 1) // 2
        samples = (samples.astype(np.float64) - middle) / (int(bounds.max) + 1 - middle)
    with np.errstate(all="ignore"):  # of numbers that are refused below
        mono = np.ascontiguousarray(samples if samples.ndim == 1 else samples.mean(0), dtype=np.float32)
    return _resampled(None, _sane(None, mono), own, rate)


@contextmanager
def _apart(source: Path | str | bytes, first: bytes) -> Iterator[str | IO[bytes]]:
    """What libsndfile opens: the file, its bytes, or where it would look beside it a copy that stands alone."""
    if first.startswith(_GUESSED):
        with TemporaryDirectory(prefix="anyformer-") as folder:
            copy = Path(folder, "sound.mp3")
            copy.write_bytes(source if isinstance(source, bytes) else Path(source).read_bytes())
            yield str(copy)
    else:
        yield io.BytesIO(source) if isinstance(source, bytes) else str(source)


def _check_file(path: Path | None, content: bytes) -> bytes:
    """The first bytes; refuses what is no regular file, too large, or begins like none of the formats."""
    if path is not None:
        if not isfile(path):
            raise SoundError(path, "is no regular file" if exists(path) else "no such sound", "give the path of a file")
        try:
            with path.open("rb") as file:
                size, first = getsize(path), file.read(12)
        except OSError as error:
            raise SoundError(path, f"cannot be read ({error.strerror or error})", "allow reading it") from None
    else:
        size, first = len(content), content[:12]
    if size > BYTES:
        raise SoundError(path, f"has {size:,} bytes, and {BYTES:,} is the most", "cut it into several")
    if not first.startswith((*_KNOWN, *_GUESSED)) or (first[:4] == b"RIFF" and first[8:12] != b"WAVE"):
        raise SoundError(path, "no file of a format that is read (WAV, FLAC, MP3, OGG)", _AGAIN)
    return first


def _check(path: Path | None, file: Any, rate: int) -> None:
    """Refuse what would take much memory or time, by what the file says of itself."""
    if file.format not in FORMATS:
        raise SoundError(path, f"is {file.format}, no format that is read (WAV, FLAC, MP3, OGG)", _AGAIN)
    if not 1 <= file.channels <= CHANNELS:
        raise SoundError(path, f"has {file.channels} channels, and {CHANNELS} is the most", "mix them down")
    # A stream of which nobody knows the length says that it is as long as can be: it is counted as it is read.
    _check_numbers(path, 0 if file.frames >= 2**62 else int(file.frames), int(file.samplerate), rate)


def _check_numbers(path: Path | None, samples: int, own: int, rate: int) -> None:
    if not SLOWEST <= own <= FASTEST:
        reason = f"has {own:,} samples per second, and {SLOWEST:,} to {FASTEST:,} are read"
        raise SoundError(path, reason, "change its rate")
    most = min(SAMPLES, SAMPLES * own // rate)
    if samples > most:
        reason = f"lasts {samples / own:,.0f} s, and {most / own:,.0f} s is the most at {max(own, rate):,} samples per second"
        raise SoundError(path, reason, "cut it into several")


def _decoded(path: Path | None, file: Any) -> Sound:
    """The mean of the channels, a block of frames at a time, as far as a sound may go."""
    parts: list[Sound] = []
    frames = max(1, _BLOCK // file.channels)
    read = 0
    while len(block := file.read(frames, dtype="float32", always_2d=True)):
        read += len(block)
        _check_numbers(path, read, int(file.samplerate), int(file.samplerate))
        with np.errstate(all="ignore"):  # of numbers that are refused below
            parts.append(block[:, 0].copy() if file.channels == 1 else block.mean(1, dtype=np.float32))
    return _sane(path, np.concatenate([np.zeros(0, np.float32), *parts]))


def _sane(path: Path | None, sound: Sound) -> Sound:
    if not len(sound):
        raise SoundError(path, "holds no samples", "leave it out")
    low, high = float(sound.min()), float(sound.max())
    if not (low >= -LOUDEST and high <= LOUDEST):  # which no number that is none passes
        reason = f"holds samples from {low:.3g} to {high:.3g}"
        raise SoundError(path, reason, f"scale them: usual are -1 to 1, and {LOUDEST:,.0f} is the most")
    return sound


def _resampled(path: Path | None, sound: Sound, own: int, rate: int) -> Sound:
    if own == rate:
        return sound
    _check_numbers(path, len(sound), own, rate)
    try:
        soxr = importlib.import_module("soxr")
    except (ImportError, OSError):
        remedy = f"pip install 'anyformer[audio]', or read it at {own}"
        raise SoundError(path, f"has {own:,} samples per second; other rates are made by soxr, not installed", remedy) from None
    found: Sound = soxr.resample(sound, own, rate)
    if not len(found):
        raise SoundError(path, "is too short to be heard at another rate", "leave it out")
    return np.ascontiguousarray(found, dtype=np.float32)
