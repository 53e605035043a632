"""Data tokenised in parts: equal to the whole byte for byte, and gone on with after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyformer.data import (
    BytePairs,
    Bytes,
    Component,
    Corpus,
    Data,
    Images,
    Mixture,
    Text,
    TextPairs,
    prepare,
    prepare_share,
    reading,
    record_pipeline,
    stretches,
    text_pipeline,
    workers,
)
from anyformer.data.stretches import WorkShare
from anyformer.text import DataError
from data.texts import prose

SIZE = stretches.Stretches.size


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches so short that small data has many, and that a document, a piece and the tail begin inside of some."""
    monkeypatch.setattr(stretches.Stretches, "size", property(lambda self: 700 if self.most == stretches.MOST else 7))
    monkeypatch.setattr(text_pipeline, "_GROUP_CHARACTERS", 1000)
    monkeypatch.setattr("anyformer.data.splitting.PIECE", 300)
    monkeypatch.setattr(text_pipeline.assign, "__defaults__", (300, *text_pipeline.assign.__defaults__[1:]))


@pytest.fixture
def data(request: pytest.FixtureRequest, library: Path, tmp_path: Path) -> Data:
    lines, pairs = tmp_path / "lines.jsonl", tmp_path / "pairs.jsonl"
    lines.write_text("".join(json.dumps({"text": prose(n, 5 + n % 90)}) + "\n\n" for n in range(150)))
    pairs.write_text("".join(json.dumps({"source": prose(n, 9), "target": prose(n, 3)}) + "\n" for n in range(100)))
    pair = BytePairs(vocab=400)
    match request.param:
        case "documents":
            return Text(paths=(str(library), str(lines)), tokenizer=pair, validation=0.2)
        case "tail":
            return Text(paths=(str(library),), tokenizer=pair, split="tail", validation=0.3)
        case "held out":
            held_out = tuple(map(str, sorted(library.iterdir())[::7]))
            return Text(paths=(str(library),), tokenizer=Bytes(), validation_paths=held_out)
        case "records":
            return TextPairs(paths=(str(pairs),), tokenizer=pair, validation=0.2)
    texts = (Text(paths=(str(path),), validation=0.1) for path in (lines, library))
    return Mixture(parts=tuple(Component(data=text, weight=1.0) for text in texts), tokenizer=pair)


every = pytest.mark.parametrize("data", ["documents", "tail", "held out", "records", "mixture"], indirect=True)


def files(corpus: Corpus) -> dict[str, bytes]:
    """All of a corpus, but for the index of a mixture's part, which says where the tokenizer of all is."""
    parts = corpus.components.values()
    return {
        f"{part.directory.name}/{path.name}": path.read_bytes()
        for part in parts for path in part.directory.rglob("*")
        if path.is_file() and not (corpus.parts and path.name == "index.json")
    }  # fmt: skip


@every
def test_parts_join_to_the_whole_byte_for_byte(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepare(data, tmp_path / "whole", 1, progress=False)
    for count in (2, 5):
        cache = tmp_path / f"{count}"
        left = [prepare_share(data, WorkShare(part, count), cache, 1, progress=False) for part in reversed(range(count))]
        assert left[-1] == 0
        assert left[0] > left[1] or left[:1] == left[1:] == [0], "the last share to end finds nothing left"
        with monkeypatch.context() as nothing:
            nothing.setattr(workers, "encoded_in_order", None)
            for pipeline in (text_pipeline, record_pipeline):
                nothing.setattr(pipeline, "encoded_in_order", lambda *arguments: (each for each in ()))
            joined = prepare(data, cache, 1, progress=False)
        assert files(joined) == files(whole)
        assert joined.digest == whole.digest
        assert not list(cache.glob("*.work")), "what was made on the way is gone"
    assert prepare_share(data, WorkShare(0, 2), tmp_path / "whole", progress=False) == 0


def test_joined_stretches_are_the_documents_one_after_the_other(library: Path, tmp_path: Path) -> None:
    """A document of several pieces, over the ends of stretches, begins once and ends once; the tail is that of the whole."""
    texts = [path.read_bytes() for path in sorted(library.iterdir())]
    ends = [len(text) + 1 for text in texts]
    documents = prepare(Text(paths=(str(library),), tokenizer=Bytes(), validation=0.0), tmp_path / "a", 1, False).train
    assert documents.starts.tolist() == [sum(ends[:number]) for number in range(len(texts))]
    assert len(documents) == sum(ends)
    tail = prepare(Text(paths=(str(library),), tokenizer=Bytes(), validation=0.3, split="tail"), tmp_path / "b", 1, False)
    whole = b"".join(texts).decode()
    spoken = [tail.tokenizer.decode(split.tokens[:].tolist()) for split in (tail.train, tail.validation)]
    assert spoken == [whole[: int(len(whole) * 0.7)], whole[int(len(whole) * 0.7) :]]


@pytest.mark.parametrize("data", ["documents", "records"], indirect=True)
def test_a_killed_share_goes_on_where_it_was(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share, made, write = WorkShare(1, 3), [], stretches.Stretches.write

    def killed(self: stretches.Stretches, number: int, arrays: dict) -> None:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(number)
        write(self, number, arrays)

    monkeypatch.setattr(stretches.Stretches, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        prepare_share(data, share, tmp_path / "cache", 1, progress=False)
    before = list(made)
    monkeypatch.setattr(stretches.Stretches, "write", lambda *arguments: made.append(arguments[1]) or write(*arguments))
    (kept,) = (tmp_path / "cache").glob("*.work/stretches")
    times = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    prepare_share(data, share, tmp_path / "cache", 1, progress=False)
    assert len(made) == len(set(made)) > len(before) == 2, "none is made twice"
    assert {name: (kept / name).stat().st_mtime_ns for name in times} == times
    joined, whole = (prepare(data, tmp_path / name, 1, progress=False) for name in ("cache", "whole"))
    assert files(joined) == files(whole)


def test_a_part_reads_only_its_own_files(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read = Text(paths=(str(library),), tokenizer=Bytes()), []
    prepare_share(data, WorkShare(0, 4), tmp_path, 1, progress=False)
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *more, **named: read.append(self) or original(self, *more, **named))
    prepare_share(data, WorkShare(1, 4), tmp_path, 1, progress=False)
    texts = {path for path in read if path.suffix == ".txt"}
    assert 0 < len(texts) < 30, "facts of the others were kept by the first part"


def test_a_damaged_stretch_is_named(library: Path, tmp_path: Path) -> None:
    data = Text(paths=(str(library),), tokenizer=Bytes())
    prepare_share(data, WorkShare(0, 1), tmp_path, 1, progress=False)
    (path,) = tmp_path.glob("*.work/stretches/00001.npz")
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"00001\.npz: damaged .*; delete it, and run again"):
        prepare(data, tmp_path, 1, progress=False)
    path.unlink()
    assert prepare(data, tmp_path, 1, progress=False).digest == prepare(data, tmp_path / "other", 1, progress=False).digest


def test_a_file_that_changed_leaves_no_stretch(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, original = Text(paths=(str(library),), tokenizer=Bytes()), text_pipeline.learn_tokenizer

    def meanwhile(*arguments: object) -> object:
        (library / "03.txt").touch()
        return original(*arguments)

    monkeypatch.setattr(text_pipeline, "learn_tokenizer", meanwhile)
    with pytest.raises(DataError, match=r"03\.txt: the file changed while"):
        prepare_share(data, WorkShare(0, 1), tmp_path, 1, progress=False)
    assert {path.name for path in tmp_path.glob("*.work/stretches/*")} == {"00000.npz"}, "the file begins in the next one"


def test_large_records_have_short_stretches_and_files_are_asked_for_once_a_pass(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(stretches.Stretches, "size", SIZE)
    for number in range(40):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    data = Images(paths=(str(tmp_path / "images"),), height=8, width=8, validation=0.2)
    whole, asked, current = prepare(data, tmp_path / "whole", 1, progress=False), [], reading.current
    monkeypatch.setattr(record_pipeline, "_MOST_BYTES", 5 * 3 * 8 * 8)
    monkeypatch.setattr(reading, "current", lambda source: asked.append(source) or current(source))
    assert prepare_share(data, WorkShare(), tmp_path / "short", 1, progress=False) == 0
    assert len(asked) == 40 + 8, "each file once it was read, and the last one of each stretch"
    made = [np.load(path) for path in (tmp_path / "short").glob("*.work/stretches/*")]
    assert [sum(each[f"{name} size"][0] for name in ("train", "validation")) for each in made] == [5] * 8
    assert files(prepare(data, tmp_path / "short", 1, progress=False)) == files(whole)


@pytest.mark.parametrize("added", [0, 1, 3])
def test_a_file_of_records_that_changed_leaves_no_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: int) -> None:
    row, original = json.dumps({"source": "a", "target": "b"}) + "\n", record_pipeline.learn_tokenizer
    for name in ("first", "second", "held"):
        (tmp_path / f"{name}.jsonl").write_text(row * 2)

    def meanwhile(*arguments: object) -> object:
        (tmp_path / "second.jsonl").write_text(row * (2 + added))
        return original(*arguments)

    monkeypatch.setattr(record_pipeline, "learn_tokenizer", meanwhile)
    paths, held_out = (tuple(str(tmp_path / f"{name}.jsonl") for name in names) for names in (("first", "second"), ("held",)))
    with pytest.raises(DataError, match=r"second\.jsonl: the file changed while"):
        prepare(TextPairs(paths=paths, validation_paths=held_out, tokenizer=Bytes()), tmp_path / "cache", 1, progress=False)
    assert not list(tmp_path.glob("cache/*.work/stretches/*"))


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2"])
def test_shares_are_numbered_from_one(text: str) -> None:
    with pytest.raises(DataError, match=r"should be I/N, such as 3/8"):
        WorkShare.parse(text)
    assert [number for part in (1, 2, 3) for number in WorkShare.parse(f"{part}/3").of(10)] == list(range(10))
