"""Archives in the form of WebDataset: files of one stem are a record; whatever else lies in one is an error for people."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from anyformer.data import Images, Sounds, prepare
from anyformer.data.lines import LONGEST
from anyformer.data.rows import rows
from anyformer.data.skips import Skips
from anyformer.data.sources import find_sources
from anyformer.text import DataError


def archive(path: Path, *files: tuple[str, bytes], format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=format) as made:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return path


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, 0, 0)).save(file, format="PNG")
    return file.getvalue()


def wav(seconds: float) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.sin(np.arange(int(seconds * 8000)) / 9), 8000, format="WAV")
    return file.getvalue()


def test_files_of_one_stem_are_a_record(tmp_path):
    described = json.dumps({"text": "of json", "place": "Ur", "size": {"cm": 3}}).encode()
    made = archive(
        tmp_path / "x.tar", ("a/1.png", png(9)), ("a/1.cls", b"7\n"), ("a/1.txt", b"caf\xc3\xa9"), ("a/._1.png", b"fork"),
        ("a/2.JPG", b"bytes"), ("a/2.json", described), ("b/2.left.png", b"l"), ("b/2.right.png", b"r"),
    )  # fmt: skip
    first, second, third = rows(made)
    assert first.values == {"png": png(9), "image": png(9), "cls": "7", "label": "7", "txt": "café", "text": "café"}
    assert first.where == f"{made}#0"
    assert second.values["image"] == second.values["jpg"] == b"bytes"
    assert (second.values["text"], second.values["place"]) == ("of json", "Ur")
    assert second.values["json"] == json.loads(described)
    assert third.values == {"left.png": b"l", "right.png": b"r"}
    # A file's own content stands before what the object says of it.
    (row,) = rows(archive(tmp_path / "y.tar", ("1.json", b'{"text": "a", "cls": 1}'), ("1.txt", b"b")))
    assert (row.values["text"], row.values["cls"]) == ("b", 1)


def test_images_and_sounds_of_archives(tmp_path):
    made = archive(tmp_path / "x.tar", *((f"{n}.{end}", what) for n in range(4) for end, what in
        (("png", png(n)), ("cls", str(n % 2).encode()), ("wav", wav(0.1 + n / 10)))))  # fmt: skip
    found = prepare(Images(paths=(str(made),), height=4, width=4, validation=0.0), tmp_path / "cache", 1, progress=False)
    assert [int(found.train[n]["image"][0, 0, 0]) for n in range(4)] == [0, 1, 2, 3]
    assert found.names == {"label": ("0", "1")}
    data = Sounds(paths=(str(tmp_path),), glob=("*.tar",), rate=8000, seconds=0.35, validation=0.0)
    assert prepare(data, tmp_path / "cache", 1, progress=False).train.lengths("sound").tolist() == [800, 1600, 2400, 2800]


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_form_of_headers_with_long_names(tmp_path, format):
    name = "d" * 90 + "/" + "é" * 20
    made = archive(tmp_path / "x.tar", (f"{name}.txt", b"a"), (f"{name}.cls", b"b"), ("last.txt", b"c"), format=format)
    assert [row.values.get("label") for row in rows(made)] == ["b", None]


def test_what_is_read_is_told_and_nothing_is_kept(tmp_path):
    made = archive(tmp_path / "x.tar", *((f"{n}.txt", b"x" * 700) for n in range(40)))
    (source,) = find_sources([str(made)])
    told: list[int] = []
    seen = []
    for row in rows(source, told.append):
        seen.append(row)
        assert sum(told) <= 1536 * (len(seen) + 2)
    assert len(seen) == 40
    assert sum(told) == made.stat().st_size


def test_records_with_a_fault_are_refused_or_counted(tmp_path):
    big = tarfile.TarInfo("big.png")
    big.size = LONGEST + 1
    link = tarfile.TarInfo("link.png")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as made:
        made.addfile(link)
        made.addfile(big, io.BytesIO(bytes(big.size)))
        bad = [("twice.txt", b"a"), ("twice.TXT", b"b"), ("bare", b"a"), ("none.txt", b"\xff"), ("j.json", b"{")]
        many = ((f"many.{n}", b"") for n in range(65))
        for name, content in [*bad, ("deep.json", b"[" * 200_000), *many, ("good.txt", b"g")]:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    (source,) = find_sources([str(path)])
    skips = Skips(20)
    assert [row.values for row in rows(source, bad=skips.add)] == [{"txt": "g", "text": "g"}]
    assert skips.count == 8
    with pytest.raises(DataError, match=r"x.tar#0: 'link.png' is no plain file"):
        list(rows(source))


def test_a_path_in_an_archive_leads_to_no_file_beyond_its_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.png").write_bytes(png(1))
    made = archive(tmp_path / "in" / "x.tar", ("1.json", b'{"image": "../out.png", "label": "a"}'))
    with pytest.raises(DataError, match="leads out of the data set"):
        prepare(Images(paths=(str(made),), height=4, width=4), tmp_path / "cache", 1, progress=False)


def test_what_is_no_whole_archive_is_an_error(tmp_path):
    made = archive(tmp_path / "x.tar", *((f"{n}.txt", b"x" * 600) for n in range(5))).read_bytes()
    path = tmp_path / "y.tar"
    broken = made[:1536] + b"?" * 512 + made[2048:]
    for content in (b"", b"no tar", b"x" * 2000, made[:1800], made[: 2 * 1536 + 100], broken):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"y.tar: (no .tar file|not a whole .tar file, behind its record \d)"):
            list(rows(path))
    path.write_bytes(made[: 5 * 1536])  # without the blocks of zeros at the end, as some programs write it
    assert len(list(rows(path))) == 5


def header(size: bytes, kind: bytes = b"0") -> bytes:
    block = bytearray(512)
    block[:5], block[100:108], block[124:136], block[156:157], block[257:265] = (
        b"1.txt",
        b"0000644\0",
        size,
        kind,
        b"ustar\00000",
    )
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def test_sizes_that_go_back_or_beyond_any_memory_end(tmp_path):
    path = tmp_path / "x.tar"
    back = b"\xff" * 4 + struct.pack(">q", -1024)
    most = b"\x80\0\0\0" + struct.pack(">q", 2**40)
    for content in (header(back), header(back) * 3, header(most), header(most, b"x"), header(most, b"L"), header(back, b"x")):
        path.write_bytes(content + bytes(4096))
        with pytest.raises(DataError, match=r"x.tar"):
            list(rows(path))
