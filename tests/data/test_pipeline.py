from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from anyformer.data import (
    BytePairs,
    Bytes,
    Characters,
    Corpus,
    Text,
    TextPairs,
    TokenizerFile,
    pipeline,
    prepare,
    record_pipeline,
    text_pipeline,
    text_survey,
    workers,
)
from anyformer.data.openings import opening
from anyformer.data.shards import RunWriter, SplitWriter, Tokens, token_dtype
from anyformer.data.text_pipeline import around_documents
from anyformer.files import default_cache
from anyformer.text import DataError, Specials
from data.texts import Prepare, prose


def _files(corpus: Corpus) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in corpus.directory.rglob("*") if path.is_file()}


def test_what_is_on_disk_is_the_text(library: Path, make: Prepare) -> None:
    corpus = make(paths=(str(library),), tokenizer=BytePairs(vocab=400))
    decode = corpus.tokenizer.decode
    text = decode(corpus.train.tokens[:].tolist(), special=True) + decode(corpus.validation.tokens[:].tolist(), special=True)
    texts = sorted(path.read_text() for path in library.iterdir())
    for one in texts:
        assert one + "<|endoftext|>" in text
    assert corpus.train.bytes + corpus.validation.bytes == sum(len(one.encode()) for one in texts)
    assert np.asarray(corpus.train.tokens).dtype == np.int64
    index = json.loads((corpus.directory / "index.json").read_text())
    assert index["splits"]["train"]["shards"][0]["count"] == len(corpus.train)
    assert sorted(path.name for path in corpus.directory.parent.iterdir() if path.is_dir()) == [corpus.directory.name]


def test_workers_change_nothing(library: Path, make: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pipeline, "_GROUP_CHARACTERS", 2000)
    fields = {"paths": (str(library),), "tokenizer": BytePairs(vocab=400)}
    one = make(workers=1, cache=tmp_path / "1", **fields)
    threads = make(workers=2, cache=tmp_path / "2", **fields)
    monkeypatch.setattr(workers, "PROCESSES_FROM", 0)
    processes = make(workers=2, cache=tmp_path / "3", **fields)
    assert _files(one) == _files(threads) == _files(processes)
    assert one.digest == processes.digest


def test_workers_change_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": prose(n, 9), "target": prose(n, 3)}) + "\n" for n in range(200)))
    monkeypatch.setattr(record_pipeline, "_GROUP", 16)
    data = TextPairs(paths=(str(path),), tokenizer=BytePairs(vocab=400))
    one, threads = (_files(prepare(data, tmp_path / str(number), number, progress=False)) for number in (1, 2))
    monkeypatch.setattr(workers, "PROCESSES_FROM", 0)
    processes = _files(prepare(data, tmp_path / "3", 2, progress=False))
    assert "train-source.bin" in one
    assert one == threads == processes


def test_an_error_in_a_worker_is_told_and_leaves_no_corpus(
    library: Path, make: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PROCESSES_FROM", 0)
    serve = "import os; os._exit(3)"
    monkeypatch.setattr("anyformer.data.workers.CODE", serve)
    with pytest.raises(DataError, match="ended early with status 3"):
        make(workers=2, paths=(str(library),))
    assert [path.suffix for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [".work"], "what may be gone on with"


def test_reused_until_something_changes(library: Path, make: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"paths": (str(library),), "tokenizer": Bytes()}
    first = make(**fields)
    monkeypatch.setattr(pipeline, "_make", None)  # making anything now fails
    assert make(**fields).digest == first.digest
    assert make(**fields, isolate=True, sampling="random").directory == first.directory
    for changed in ({"validation": 0.2}, {"split": "tail"}, {"tokenizer": Characters()}, {"glob": ("0*.txt",)}):
        with pytest.raises(TypeError):
            make(**(fields | changed))
    monkeypatch.undo()
    file = library / "05.txt"
    status, text = file.stat(), file.read_text()
    for content in (text + "x", text.swapcase()):
        file.write_text(content)
        assert make(**fields).digest != first.digest
    file.write_text(text)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert make(**fields).directory == first.directory
    (library / "new.txt").write_text("new")
    assert make(**fields).directory != first.directory


def test_another_field_of_the_lines_is_another_corpus(tmp_path: Path, make: Prepare) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(f'{{"text": "abc {i}", "code": "xyz {i}"}}\n' for i in range(40)))
    texts = {}
    for field in ("text", "code"):
        corpus = make(paths=(str(path),), tokenizer=Bytes(), field=field)
        texts[field] = corpus.tokenizer.decode(corpus.train.tokens[:].tolist())
    assert "abc" in texts["text"]
    assert "xyz" in texts["code"]
    assert "abc" not in texts["code"]


def test_each_source_has_a_fingerprint_of_its_text(library: Path, make: Prepare) -> None:
    fields = {"paths": (str(library),), "tokenizer": Bytes()}
    before = make(**fields).sources
    assert set(before) == {str(path) for path in library.iterdir()}
    file = library / "05.txt"
    file.write_text(file.read_text().swapcase())
    (library / "06.txt").touch()
    after = make(**fields).sources
    assert [path for path in before if before[path] != after[path]] == [str(file)]


def test_an_opening_is_how_a_held_out_document_begins(tmp_path: Path, make: Prepare) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(f'{{"text": "  once upon a time {i} there was\\nan end"}}\n' for i in range(200)))
    corpus = make(paths=(str(path),), tokenizer=Bytes(), validation=0.1)
    assert {opening(corpus.validation, corpus.tokenizer, number) for number in range(99)} == {"once upon a time"}
    running = tmp_path / "running.txt"
    running.write_text("\n".join(f"line number {i} of the text" for i in range(400)))
    corpus = make(paths=(str(running),), tokenizer=Bytes(), validation=0.1)
    assert (
        opening(corpus.validation, corpus.tokenizer, 0, words=2)
        == opening(corpus.validation, corpus.tokenizer, 1, words=2)
        == "line number"
    )
    assert opening(corpus.validation, corpus.tokenizer, 0) != opening(corpus.validation, corpus.tokenizer, 1)


def test_a_changed_tokenizer_file_makes_it_again(library: Path, make: Prepare, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer" / "tokenizer.json"
    digests = []
    for vocab in (300, 310):
        file.parent.mkdir(exist_ok=True)
        made = make(paths=(str(library),), tokenizer=BytePairs(vocab=vocab))
        made.tokenizer.save(file.parent)
        corpus = make(paths=(str(library),), tokenizer=TokenizerFile(path=str(file.parent)))
        assert corpus.tokenizer == made.tokenizer
        assert corpus.digest == made.digest, "the same tokens, however they came about"
        digests.append(corpus.digest)
    assert digests[0] != digests[1]


@pytest.mark.parametrize("name", ["train-00000.bin", "validation-00000.bin", "train-documents.bin"])
def test_a_damaged_file_is_named_and_made_again(library: Path, make: Prepare, name: str) -> None:
    fields = {"paths": (str(library),), "tokenizer": Bytes()}
    corpus = make(**fields)
    file = corpus.directory / name
    good = file.read_bytes()
    file.write_bytes(good[:-1])
    with pytest.raises(DataError, match=rf"{name}: has {len(good) - 1:,} bytes, should have {len(good):,}; delete"):
        Corpus.open(corpus.directory)
    with pytest.warns(UserWarning, match=name):
        make(**fields)
    assert file.read_bytes() == good
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    file.write_bytes(flipped)
    with pytest.raises(DataError, match=rf"{name}: its content changed on disk"):
        Corpus.open(corpus.directory, verify=True)
    with pytest.warns(UserWarning, match=name):
        make(**fields, verify=True)
    assert file.read_bytes() == good
    file.unlink()
    with pytest.warns(UserWarning, match=name):
        make(**fields)
    assert Corpus.open(corpus.directory, verify=True).digest == corpus.digest


def test_a_damaged_index_or_tokenizer_is_named(library: Path, make: Prepare) -> None:
    corpus = make(paths=(str(library),), tokenizer=Bytes())
    for name, old, new, said in (
        ("index.json", '"bytes": ', '"bytes": 1', "its content changed"),
        ("index.json", "{", "", "damaged"),
        ("index.json", '"format": 7', '"format": 1', "its content changed"),
        ("beside/tokenizer.json", '"Ā":0', '"Ā":7', "its content changed"),
    ):
        file = corpus.directory / name
        good = file.read_text()
        assert old in good
        file.write_text(good.replace(old, new, 1))
        with pytest.raises(DataError, match=rf"{name}: {said}"):
            Corpus.open(corpus.directory)
        file.write_text(good)
    with pytest.raises(DataError, match="give a directory that `prepare` made"):
        Corpus.open(library)


def test_skipped_files_are_reported_and_stay_reported(library: Path, make: Prepare) -> None:
    (library / "empty.txt").write_text("")
    (library / "binary.txt").write_bytes(b"a\0b")
    (library / "half.txt").write_bytes(b"fine text, then " + b"\xe9 latin")
    (library / "lines.jsonl").write_text('{"text": ""}\n{"text": "x"}\n')
    for _ in range(2):
        corpus = make(paths=(str(library),), tokenizer=Bytes(), validation=0.0)
        reasons = {Path(item.path).name: item.reason for item in corpus.skipped}
        assert reasons["empty.txt"] == "empty"
        assert reasons["binary.txt"].startswith("binary")
        assert reasons["half.txt"].startswith("not UTF-8")
        assert reasons["lines.jsonl"] == "1 document is empty"
        assert "half.txt: not UTF-8" in corpus.summary()
        assert "fine text" not in corpus.tokenizer.decode(corpus.train.tokens[:].tolist())
    with pytest.raises(DataError, match=r"half\.txt: not UTF-8"):
        make(paths=(str(library / "half.txt"),))
    bad = library / "bad"
    bad.mkdir()
    (bad / "a.txt").write_bytes(b"\0")
    with pytest.raises(DataError, match=r"no file has text \(.*a\.txt: binary"):
        make(paths=(str(bad),))


def test_a_source_that_changes_meanwhile_is_refused(library: Path, make: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*arguments: object) -> object:
        (library / "03.txt").write_text("other")
        return original(*arguments)  # type: ignore[arg-type]

    original = text_survey.decide
    monkeypatch.setattr(text_survey, "decide", meanwhile)
    with pytest.raises(DataError, match=r"03\.txt: the file changed while"):
        make(paths=(str(library),), tokenizer=Bytes())


def test_a_cache_that_cannot_be_written_names_the_remedy(library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="ANYFORMER_CACHE"):
        prepare(Text(paths=(str(library),)), tmp_path / "file" / "cache", 1, progress=False)
    with pytest.raises(DataError, match="workers = 0"):
        prepare(Text(paths=(str(library),)), tmp_path, 0)


def test_the_default_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("ANYFORMER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "anyformer"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "anyformer"


def test_two_at_once_make_it_once(library: Path, make: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    made, original = [], pipeline._make
    monkeypatch.setattr(pipeline, "_make", lambda *arguments: made.append(1) or original(*arguments))
    results: list[Corpus] = []
    threads = [
        threading.Thread(target=lambda: results.append(make(paths=(str(library),), tokenizer=Bytes()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len({corpus.digest for corpus in results}) == 1


def test_what_a_killed_run_left_is_removed(library: Path, make: Prepare) -> None:
    corpus = make(paths=(str(library),), tokenizer=Bytes())
    left = corpus.directory.with_name(f".{corpus.directory.name}.partial-123")
    left.mkdir()
    shutil.rmtree(corpus.directory)
    assert make(paths=(str(library),), tokenizer=Bytes()).digest == corpus.digest
    assert not left.exists()


def test_every_file_of_a_split_is_on_the_disk_whole_once_it_is_closed(tmp_path, monkeypatch):
    synced, real = {}, os.fsync

    def noted(handle: int) -> None:
        synced[Path(os.readlink(f"/proc/self/fd/{handle}")).name] = os.fstat(handle).st_size
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    writer, run = SplitWriter(tmp_path, "train", np.dtype("<u2"), shard=7), RunWriter()
    run.add(np.arange(10, dtype=np.uint32), 10, begins=True, ends=True)
    writer.add(run.run())
    writer.close()
    assert synced == {"train-00000.bin": 14, "train-00001.bin": 6, "train-documents.bin": 8}


def test_shards_join(tmp_path: Path) -> None:
    writer = SplitWriter(tmp_path, "train", np.dtype("<u4"), shard=7)
    runs = [np.arange(size, dtype=np.uint32) + 70_000 for size in (3, 20, 1, 0, 4)]
    for some in (runs[:2], runs[2:3], [], runs[3:]):
        gathered = RunWriter((), (9,))
        for run in some:
            gathered.add(run, size=len(run), begins=True, ends=True)
        writer.add(gathered.run())
    entry = writer.close()
    whole = np.concatenate([np.append(run, 9) for run in runs])
    assert [shard["count"] for shard in entry["shards"]] == [7, 7, 7, 7, 5]
    tokens = Tokens([np.fromfile(tmp_path / shard["file"], "<u4") for shard in entry["shards"]])
    assert np.array_equal(tokens[:], whole)
    for start in range(len(whole)):
        assert tokens[start] == whole[start]
        for stop in range(start, len(whole) + 3):
            assert np.array_equal(tokens[start:stop], whole[start:stop])
    assert np.fromfile(tmp_path / "train-documents.bin", "<i8").tolist() == [0, 4, 25, 27, 28]


def test_tokens_take_two_bytes_while_their_numbers_fit() -> None:
    assert [token_dtype(vocab).itemsize for vocab in (256, 2**16, 2**16 + 1)] == [2, 2, 4]


def test_progress_is_told_in_lines_without_a_terminal_unless_it_is_not_wanted(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("anyformer.data.progress._SECONDS_BETWEEN_LINES", 0.0)
    data = Text(paths=(str(library),), tokenizer=Bytes())
    prepare(data, tmp_path / "told", 1)
    said = capsys.readouterr()
    assert said.out == ""
    assert "tokenising: 0 of 0 MB, 0 s left\n" in said.err
    prepare(data, tmp_path / "quiet", 1, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("frame", "end", "around"),
    [
        (((), ()), 7, ((), (7,))),
        (((1,), (2,)), 7, ((1,), (2,))),
        (((1,), ()), 7, ((1,), (7,))),
        (((1,), (2,)), None, ((1,), (2,))),
    ],
)
def test_a_document_has_one_end(frame, end, around):
    """What the tokenizer puts behind a text, or the token that ends one where it puts nothing."""
    single = SimpleNamespace(before=frame[0], behind=frame[1])
    tokenizer = SimpleNamespace(end_of_text=end, frame=SimpleNamespace(single=single))
    assert around_documents(tokenizer, Specials(), SimpleNamespace(separate=True)) == around
