"""Files of images: whatever lies in them is an image or an error for people, and starts nothing."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyformer import images
from anyformer.data.rows import BadRecord, RecordRow, image_field, rows
from anyformer.images import ImageError, read_image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def png(width: int, height: int) -> bytes:
    """The beginning of a PNG of any size, its pixels left out."""
    header = b"IHDR" + struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    chunks = [struct.pack(">I", len(each) - 4) + each + struct.pack(">I", zlib.crc32(each)) for each in (header, data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "inside" / "photo.png"
    path.parent.mkdir()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(path)
    return path


def test_the_six_formats_are_read(photo: Path, tmp_path: Path) -> None:
    whole = Image.open(photo)
    for name in images.FORMATS:
        whole.save(tmp_path / "image", format=name)
        assert read_image(tmp_path / "image", "RGB").size == (4, 4), name
    assert read_image(photo, "L").mode == "L"


def test_no_image_starts_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives EPS to Ghostscript, whatever the file's name."""
    for name in ("gs", "gswin64c"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "image.png").write_bytes(EPS)
    with pytest.raises(ImageError, match="no whole image of a format that is read"):
        read_image(tmp_path / "image.png", "RGB")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["DDS", "SGI", "PPM", "ICO", "PCX", "TGA", "JPEG2000"])
def test_other_formats_are_refused(name: str, photo: Path, tmp_path: Path) -> None:
    Image.open(photo).save(tmp_path / "image.png", format=name)
    with pytest.raises(ImageError, match="no whole image of a format that is read"):
        read_image(tmp_path / "image.png", "RGB")


def test_every_failure_of_a_decoder_is_an_error_for_people(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ValueError("x"), RuntimeError("x"), KeyError("x"), struct.error("x"), SyntaxError("x"), MemoryError()):
        monkeypatch.setattr(Image.Image, "load", lambda self, error=error: (_ for _ in ()).throw(error))
        with pytest.raises(ImageError, match="damaged"):
            read_image(photo, "RGB")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", tmp_path, Path("/dev/zero")):
        with pytest.raises(ImageError, match="is no regular file"):
            read_image(path, "RGB")
    for name in ("absent.png", "nul\0.png", "x" * 5000, "half\ud800.png"):
        with pytest.raises(ImageError, match="no such image"):
            read_image(tmp_path / name, "RGB")


@pytest.mark.parametrize("size", [(8192, 8192), (2**31 - 1, 1), (13_000, 13_000), (60_000, 60_000)])
def test_pixels_are_bounded_before_they_are_decoded(size: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(png(*size))
    with pytest.raises(ImageError, match="pixels"):
        read_image(tmp_path / "large.png", "RGB")


def test_passes_over_a_jpeg_are_bounded(tmp_path: Path) -> None:
    """Some bytes each, and each takes the time of the whole image."""
    path = tmp_path / "many.jpg"
    Image.new("L", (8, 8)).save(path, progressive=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + whole[whole.rindex(b"\xff\xda") : -2] * 300 + whole[-2:])
    with pytest.raises(ImageError, match=r"a JPEG of 3\d\d passes"):
        read_image(path, "L")


def test_no_path_leads_out_of_the_data_set(photo: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(photo.read_bytes())
    (photo.parent / "link.png").symlink_to(secret)
    (photo.parent / "out").symlink_to(tmp_path)
    for name in ("../secret.png", str(secret), "link.png", "out/secret.png", "./../inside/../secret.png", "nul\0.png"):
        with pytest.raises(BadRecord, match=r"f:1: field 'image' is .* leads out of the data set"):
            image_field(RecordRow("f:1", {"image": name}, photo.parent), "image", 3, 4, 4)
    with pytest.raises(BadRecord, match="half of a surrogate pair"):
        image_field(RecordRow("f:1", {"image": "\udcff.png"}, photo.parent), "image", 3, 4, 4)
    for name in ("photo.png", str(photo), "../inside/photo.png"):
        assert image_field(RecordRow("f:1", {"image": name}, photo.parent), "image", 3, 4, 4).shape == (3, 4, 4)
    (link,) = [row for row in rows(photo.parent) if row.values["image"] == "link.png"]
    with pytest.raises(BadRecord, match="leads out of the data set"):
        image_field(link, "image", 3, 4, 4)


def test_the_data_set_is_the_directory_that_was_named(photo: Path) -> None:
    """Records may stand beside their images in it; a file that was named alone has its own directory."""
    listed = photo.parent / "lists" / "train.jsonl"
    listed.parent.mkdir()
    listed.write_text('{"image": "../photo.png"}\n')
    found = next(row for row in rows(photo.parent) if "train.jsonl" in row.where)
    assert image_field(found, "image", 3, 4, 4).shape == (3, 4, 4)
    with pytest.raises(BadRecord, match=r"train\.jsonl:1: field 'image' is .* leads out of the data set"):
        image_field(next(rows(listed)), "image", 3, 4, 4)


def test_links_of_the_hubs_cache_lead_to_its_blobs(photo: Path, tmp_path: Path) -> None:
    shown, blobs = (tmp_path / "datasets--x" / name for name in ("snapshots/1a", "blobs"))
    for folder in (shown, blobs):
        folder.mkdir(parents=True)
    (blobs / "2b").write_bytes(photo.read_bytes())
    (shown / "a.png").symlink_to("../../blobs/2b")
    assert image_field(next(rows(shown)), "image", 3, 4, 4).shape == (3, 4, 4)
