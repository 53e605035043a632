"""Cases of images and sounds by bytes: archives and tables that hold them, whole or damaged, and fields that hold else."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from anyformer.data import Bytes, Images, Sounds, Speech, prepare
from anyformer.data.rows import image_field, rows, sound_field
from fuzz.damage import damaged
from fuzz.guard import place
from fuzz.images import READ as IMAGES
from fuzz.images import _content as image_content
from fuzz.images import _saved as image_saved
from fuzz.kind import Case, Kind
from fuzz.mutate import HOSTILE
from fuzz.sounds import READ as SOUNDS
from fuzz.sounds import sound_content, sound_saved

STEMS = ("1", "1", "2", "2", "a/3", "../outside/4", "/etc/5", "..", "n" * 300, "é", "\x1b[2J", "", ".hidden", "1.")
ENDINGS = ("png", "jpg", "wav", "flac", "cls", "txt", "json", "PNG", "left.png", "tar", "")
KINDS_OF_MEMBER = (tarfile.REGTYPE,) * 9 + (
    tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE,
    tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME,
)  # fmt: skip
OBJECTS: tuple[Any, ...] = (
    {"text": "a", "label": "b"}, {"image": "../outside/image.png"}, {"sound": {"array": [0.5], "sampling_rate": 16_000}},
    {"sound": "../outside/image.png"}, {"label": 1}, [], None, "x",
)  # fmt: skip


def archive(seed: int) -> Case:
    """One archive or table, read as rows, by its fields, or prepared."""
    draw = random.Random(seed)
    tables = draw.random() < 0.4
    content = _table(draw) if tables else _tar(draw)
    content = damaged(content, draw) if draw.random() < 0.5 else content
    way = draw.choice((_fields, _fields, _images, _sounds, _speech))

    def run() -> None:
        with place({"image.png": image_saved("PNG", "RGB")}) as inside:
            path = inside / ("x.parquet" if tables else "x.tar")
            path.write_bytes(content)
            way(path)

    return run


def _fields(path: Path) -> None:
    """The fields of every record, by what they may be."""
    for row in rows(path):
        for name in list(row.values):
            if name in ("image", "png", "jpg"):
                image_field(row, name, 3, 8, 8)
            elif name in ("sound", "wav", "audio"):
                sound_field(row, name, 16_000)


def _images(path: Path) -> None:
    _prepared(Images(paths=(str(path),), height=8, width=8, validation=0.0, skip_bad=2), path)


def _sounds(path: Path) -> None:
    _prepared(Sounds(paths=(str(path),), validation=0.0, skip_bad=2), path)


def _speech(path: Path) -> None:
    _prepared(Speech(paths=(str(path),), tokenizer=Bytes(), validation=0.0, skip_bad=2), path)


def _prepared(data: Images | Sounds | Speech, path: Path) -> None:
    prepare(data, path.parent / "cache", workers=1, progress=False).summary()


def _file(ending: str, draw: random.Random) -> bytes:
    """What a file of such a name may hold."""
    hostile = draw.random() < 0.4
    match ending.rpartition(".")[2].lower():
        case "png" | "jpg":
            return image_content(draw) if hostile else image_saved(draw.choice(IMAGES), "RGB")
        case "wav" | "flac":
            return sound_content(draw) if hostile else sound_saved(*draw.choice(SOUNDS))
        case "json":
            whole = json.dumps(draw.choice(OBJECTS)).encode()
            return draw.choice((b"[" * 50_000, b"\xff", b"{", b"NaN", b"9" * 5000, b"")) if hostile else whole
    return (
        draw.choice((b"\xff\xfe", b"", b"\0" * 999, b"x" * 100_000)) if hostile else draw.choice((b"a", b"b\n", b"caf\xc3\xa9"))
    )


def _tar(draw: random.Random) -> bytes:
    """An archive of records that are whole, for the most part."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=draw.choice((0, 1, 2)), errors="surrogateescape") as made:
        for stem in range(draw.choice((0, 1, 1, 3, 20))):
            for ending in ("png", "wav", "cls", "txt"):
                _member(
                    made, f"{stem}.{ending}", _file(ending, draw) if draw.random() < 0.2 else _whole(ending), tarfile.REGTYPE
                )
        for _ in range(draw.choice((0, 0, 1, 4))):
            ending = draw.choice(ENDINGS)
            _member(made, f"{draw.choice(STEMS)}.{ending}", _file(ending, draw), draw.choice(KINDS_OF_MEMBER))
    content = bytearray(file.getvalue())
    if draw.random() < 0.2:
        _another_size(content, draw)
    return bytes(content[: len(content) - draw.choice((0, 0, 512, 1024, 5000))])


def _whole(ending: str) -> bytes:
    return {"png": image_saved("PNG", "RGB"), "wav": sound_saved("WAV", "PCM_16"), "cls": b"1", "txt": b"one"}[ending]


def _member(made: tarfile.TarFile, name: str, content: bytes, kind: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = len(content), kind, "../outside/image.png"
    try:
        made.addfile(member, io.BytesIO(content))
    except ValueError:
        """This form of headers holds no such name."""


def _another_size(content: bytearray, draw: random.Random) -> None:
    """Another size in the first header, which has the right sum."""
    content[124:136] = draw.choice(
        (b"77777777777\0", b"\x80" + bytes(3) + b"\0\0\1" + bytes(5), b"\xff" * 11 + b"\0", b"00000000001\0", b"           \0")
    )
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])


def _table(draw: random.Random) -> bytes:
    """A table with structs of bytes and paths, or bytes, paths and else."""
    count = draw.choice((1, 1, 3, 20))

    def column(make: Callable[[], bytes], form: str) -> list[Any]:
        match form:
            case "struct":
                return [
                    draw.choice(({"bytes": make(), "path": "x"}, {"bytes": None, "path": "../outside/image.png"}))
                    for _ in range(count)
                ]
            case "bytes":
                return [make() for _ in range(count)]
        return [draw.choice(("../outside/image.png", "/dev/zero", "x", "")) for _ in range(count)]

    forms = [draw.choice(("struct", "struct", "bytes", "path")) for _ in range(2)]
    values: dict[str, Any] = {
        "image": column(lambda: _file("png", draw), forms[0]),
        "sound": column(lambda: _file("wav", draw), forms[1]),
        "label": [draw.choice(("a", "b"))] * count,
        "text": ["one"] * count,
    }
    if draw.random() < 0.1:
        values[draw.choice(sorted(values))] = [draw.choice(HOSTILE)] * count
    file, compression = io.BytesIO(), draw.choice(("none", "zstd"))
    try:
        pyarrow.parquet.write_table(pyarrow.table(values), file, compression=compression)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        file = io.BytesIO()
        odd = {"image": [{"bytes": b"x", "path": None, "array": [[0.5]]}], "sound": [{"array": [0.5], "sampling_rate": None}]}
        pyarrow.parquet.write_table(pyarrow.table(odd), file, compression=compression)
    return file.getvalue()


KINDS = {"archives": Kind(archive, 3_000, 120)}
