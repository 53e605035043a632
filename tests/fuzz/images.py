"""Cases of images: files of every format that there is, damaged, under other names, or of sizes that they do not have; read as
a record's field, as a directory's file, and as a prompt's image."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from anyformer import huggingface
from anyformer.data.rows import image_field, rows
from fuzz.damage import damaged
from fuzz.guard import OUTSIDE, place
from fuzz.kind import Case, Kind

READ = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
OTHER = ("EPS", "DDS", "SGI", "PPM", "ICO", "PCX", "TGA", "JPEG2000", "AVIF", "ICNS", "IM", "MSP", "PDF", "XBM")
MODES = ("RGB", "L", "RGBA", "P", "1", "CMYK", "I;16", "LA")
SIDES = (0, 1, 2, 7, 255, 4096, 5792, 5793, 16_383, 65_535, 100_000, 2**24, 2**31 - 1, 2**32 - 1)
PROCESSOR = {
    "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 8}, "crop_size": {"height": 8, "width": 8},
}  # fmt: skip
NAMES = (
    "image.png", "image.png", "image.png", "image.jpg", "x/../image.png", "../outside/image.png", "out/image.png", "link.png",
    "pipe.png", "x", "", ".", "..", "/", "/dev/zero", "/dev/tty", "/proc/self/mem", "nul\0.png", "half\ud800.png", "\udcff.png",
    "n" * 5000, "image.png/", "~/image.png", "file://image.png", "http://localhost/image.png", "inside/" * 300 + "image.png",
)  # fmt: skip


def image(seed: int) -> Case:
    """One file, and one record that names a file."""
    draw = random.Random(seed)
    content, name, way = _content(draw), draw.choice(NAMES), draw.choice((_field, _field, _directory, _prompt))

    def run() -> None:
        with place({"image.png": _saved("PNG", "RGB")}) as inside:
            outside = inside.parent / OUTSIDE / "image.png"
            (inside / "x").mkdir()
            (inside / "link.png").symlink_to(outside)
            (inside / "out").symlink_to(outside.parent)
            os.mkfifo(inside / "pipe.png")
            for file in ("image.png", "image.jpg"):
                (inside / file).write_bytes(content)
            way(inside, str(outside) if seed % 50 == 0 else name)

    return run


def _field(inside: Path, name: str) -> None:
    """A record's field."""
    (inside / "records.jsonl").write_text(json.dumps({"image": name, "label": "x"}))
    for row in rows(inside / "records.jsonl"):
        image_field(row, "image", 3, 8, 8)


def _directory(inside: Path, name: str) -> None:
    """The image files of a directory, links and pipes among them."""
    (inside / "link.png").unlink()
    for row in rows(inside):
        image_field(row, "image", 1, 8, 8)


def _prompt(inside: Path, name: str) -> None:
    """The image beside a prompt: whatever the user names is his, so it is the damaged one."""
    (inside / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    huggingface.pixels([inside / "image.png"], inside)


def _content(draw: random.Random) -> bytes:
    kind = draw.choice(("whole", "damaged", "damaged", "damaged", "other", "other", "sized", "sized", "passes", "text"))
    match kind:
        case "whole":
            return _saved(draw.choice(READ), draw.choice(MODES))
        case "other":
            content = _saved(draw.choice(OTHER), "RGB")
            return content if draw.random() < 0.5 else damaged(content, draw)
        case "sized":
            return _sized(draw)
        case "passes":
            whole = _saved("JPEG", "L")
            return whole[:-2] + whole[whole.rindex(b"\xff\xda") : -2] * draw.choice((1, 200, 300, 20_000)) + whole[-2:]
        case "text":
            return draw.choice(
                (b"", b"\x89PNG", b"GIF89a", b"%!PS-Adobe", b"P6 9 9", b"<svg/>", b"\0" * 5000, b"II*\0" + b"\xff" * 999)
            )
    return damaged(_saved(draw.choice(READ), draw.choice(MODES)), draw)


def _sized(draw: random.Random) -> bytes:
    """A header of any size, and few pixels or many of one colour behind it."""
    width, height = draw.choice(SIDES), draw.choice(SIDES)
    match draw.choice(("png", "gif", "bmp", "jpeg", "tiff")):
        case "png":
            lines = zlib.compress(bytes(2**20)) if draw.random() < 0.5 else b""
            header = struct.pack(">2I5B", width, height, draw.choice((1, 8, 16)), draw.choice((0, 2, 3, 6)), 0, 0, 1)
            return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", lines) + _chunk(b"IEND", b"")
        case "gif":
            whole = bytearray(_saved("GIF", "P"))
            whole[6:10] = struct.pack("<2H", width & 0xFFFF, height & 0xFFFF)
            return bytes(whole)
        case "bmp":
            header = struct.pack("<2s4I", b"BM", 0, 0, 54, 40) + struct.pack(
                "<2I2H6I", width & 0x7FFFFFFF, height & 0x7FFFFFFF, 1, 8, 1, 0, 1, 1, 0, 0
            )
            return header + draw.choice((b"\0\0", b"\xff\1", b"\0\2\xff\xff", b"\1\1")) * draw.choice((1, 1000, 500_000))
        case "jpeg":
            whole = bytearray(_saved("JPEG", "L"))
            at = max(whole.find(b"\xff\xc0"), whole.find(b"\xff\xc2"))
            whole[at + 5 : at + 9] = struct.pack(">2H", height & 0xFFFF, width & 0xFFFF)
            return bytes(whole)
    fields = (
        (256, width),
        (257, height),
        (258, 8),
        (259, draw.choice((1, 5, 7, 8, 32773))),
        (262, 1),
        (273, 8),
        (278, height),
        (279, 99),
    )
    tags = b"".join(struct.pack("<2H2I", tag, 4, 1, value) for tag, value in fields)
    return b"II*\0" + struct.pack("<IH", 8, len(fields)) + tags + bytes(200)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@cache
def _saved(format: str, mode: str) -> bytes:
    """A small image as a file; in another mode where the format has not this one."""
    grid = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    whole, file = Image.fromarray(grid), io.BytesIO()
    try:
        whole.convert(mode).save(file, format=format, **({"progressive": True} if format == "JPEG" else {}))
    except (OSError, ValueError, KeyError):
        file = io.BytesIO()
        whole.convert("1" if format in ("MSP", "XBM") else "RGB").save(file, format=format)
    return file.getvalue()


KINDS = {"images": Kind(image, 3_000, 150)}
