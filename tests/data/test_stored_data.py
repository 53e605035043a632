"""Data in stores, fsspec's memory and files by URL: the batches of a local directory, and errors that name the object."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from anyformer import stores
from anyformer.data import (
    Batches,
    BytePairs,
    Bytes,
    Component,
    Corpus,
    Mixture,
    Text,
    TextPairs,
    TokenizerFile,
    prepare,
    shards,
    stored_numbers,
)
from anyformer.data.prepared import check_storable, is_prepared, store
from anyformer.data.sources import find_sources
from anyformer.data.stored_numbers import BLOCK, BlockCache, StoredNumbers
from anyformer.describe import UserError
from anyformer.stores import StoreError
from anyformer.tasks import Regression, TaskData
from anyformer.text import DataError
from data.texts import PACK, prose


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    place = f"memory://{tmp_path.name}" if request.param == "memory" else f"file://{tmp_path}/store"
    yield place
    stores.removed(place)


@pytest.fixture(autouse=True)
def _no_block_is_held(monkeypatch):
    monkeypatch.setattr(stored_numbers, "_CACHE", BlockCache())
    monkeypatch.setattr(StoredNumbers.__init__, "__defaults__", (BlockCache(),))


def put(url: str, folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with stores.opened(stores.joined(url, path.relative_to(folder).as_posix()), "wb") as file:
                file.write(path.read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A text in every form that is read."""
    place = tmp_path / "folder"
    (place / "deep").mkdir(parents=True)
    for number, (suffix, pack) in enumerate(PACK.items()):
        (place / f"{number}.txt{suffix}").write_bytes(pack(prose(number, 300).encode()))
        lines = "".join(json.dumps({"text": prose(n + 10 * number, 40)}) + "\n" for n in range(9))
        (place / "deep" / f"{number}.jsonl{suffix}").write_bytes(pack(lines.encode()))
    pyarrow.parquet.write_table(pyarrow.table({"text": [prose(n + 99, 30) for n in range(20)]}), place / "rows.parquet")
    (place / ".hidden.txt").write_text("not this")
    return place


def test_every_form_of_text_is_read_from_a_store_as_from_a_directory(url: str, folder: Path, tmp_path: Path) -> None:
    put(url, folder)
    fields = {"tokenizer": BytePairs(vocab=400), "validation": 0.2}
    here, there = (prepare(Text(paths=(str(place),), **fields), tmp_path / "cache", 1, False) for place in (folder, url))
    assert there.digest == here.digest
    assert list(there.sources.values()) == list(here.sources.values())
    assert {name.startswith(url) for name in there.sources} == {True}
    one = stores.joined(url, "deep", "0.jsonl")
    assert prepare(Text(paths=(one,), **fields), tmp_path / "cache", 1, False).sources.keys() == {one}


@pytest.mark.parametrize("sampling", ["epochs", "random"])
def test_prepared_tokens_in_a_store_give_the_batches_of_the_disk(
    url: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampling: str
) -> None:
    monkeypatch.setattr(stored_numbers, "BLOCK", 256)
    monkeypatch.setattr(shards.SplitWriter.__init__, "__defaults__", (1000,))  # several files
    fields = {"tokenizer": BytePairs(vocab=400), "validation": 0.2}
    here = prepare(Text(paths=(str(folder),), **fields), tmp_path / "cache", 1, False)
    store(here, url)
    store(here, str(tmp_path / "copy"))
    for place in (url, str(tmp_path / "copy")):
        there = prepare(Text(paths=(place,), **fields), tmp_path / "other", 1, False, verify=True)
        assert there.digest == here.digest
        for isolate in (False, True):
            mine, theirs = (
                Batches(corpus.train, 16, 4, seed=3, isolate=isolate, sampling=sampling) for corpus in (here, there)
            )
            for step in (0, 1, 7, 500):  # any step alone: nothing is kept between them
                a, b = mine.at(step), theirs.at(step)
                assert np.array_equal(a.tokens, b.tokens)
                assert np.array_equal(a.targets, b.targets)
                parts = [theirs.at(step, rank, 2).tokens for rank in range(2)]
                assert np.array_equal(np.concatenate(parts), a.tokens)
        assert np.array_equal(here.validation.tokens[:], there.validation.tokens[:])


def test_only_what_the_index_names_is_copied(url: str, folder: Path, tmp_path: Path) -> None:
    corpus = prepare(Text(paths=(str(folder),), tokenizer=Bytes()), tmp_path / "cache", 1, False)
    made = {path.relative_to(corpus.directory).as_posix() for path in corpus.directory.rglob("*") if path.is_file()}
    (corpus.directory / "notes.txt").write_text("of the user")
    store(corpus, url)
    assert {each.removeprefix(url).lstrip("/") for each in stores.listed(url)} == made


def test_what_has_no_tokens_of_its_own_is_not_copied(url: str, folder: Path, tmp_path: Path) -> None:
    one = Text(paths=(str(folder),), tokenizer=Bytes())
    part = Component(data=Text(paths=(str(folder),)), weight=1.0)
    mixture = Mixture(parts=(part, part.but(name="other")), tokenizer=Bytes())
    with pytest.raises(DataError, match=r"a mixture has no tokens of its own .* prepare the parts one by one"):
        check_storable(mixture, url)
    with pytest.raises(DataError, match="is made as it is read: there are no tokens to copy"):
        check_storable(TaskData(task=Regression(inputs=2, greatest=2)), url)
    check_storable(one, url)
    store(prepare(one, tmp_path / "cache", 1, False), url)
    with pytest.raises(DataError, match="is prepared, in a store; copy it with the tools of the store"):
        check_storable(one.but(paths=(url,)), url)


def test_no_name_of_a_store_leads_out_of_the_cache(url: str, folder: Path, tmp_path: Path, monkeypatch) -> None:
    data = Text(paths=(url,), tokenizer=Bytes(), validation=0.2)
    store(prepare(data.but(paths=(str(folder),)), tmp_path / "cache", 1, False), url)
    listed, outside = stores.objects(url), stores.joined(url, "beside/../../../outside")
    bad = stores.StoredObject(outside, 3, "")
    monkeypatch.setattr(stores, "objects", lambda url: [*listed, bad])
    for ask in (stores.beneath, find_sources, lambda url: prepare(data, tmp_path / "other", 1, False)):
        with pytest.raises(StoreError, match=r"outside: its name leads out of .*; delete this object, or rename it"):
            ask((url,) if ask is find_sources else url)
    assert not list(tmp_path.rglob("outside"))


def test_no_name_of_an_index_leads_out_of_its_directory(folder: Path, tmp_path: Path) -> None:
    data = Text(paths=(str(folder),), tokenizer=Bytes(), validation=0.2)
    directory = prepare(data, tmp_path / "cache", 1, False).directory
    index = json.loads((directory / "index.json").read_text())
    del index["checksum"]
    index["splits"]["train"]["shards"][0]["file"] = "../outside.bin"
    index["checksum"] = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
    (directory / "index.json").write_text(json.dumps(index, indent=1))
    with pytest.raises(DataError, match=r"index\.json: names the file '\.\./outside\.bin', which is not in its directory"):
        Corpus.open(directory)


def test_no_other_index_is_written_over(url: str, folder: Path, tmp_path: Path) -> None:
    one = Text(paths=(str(folder),), tokenizer=Bytes(), validation=0.2)
    first, second = (prepare(each, tmp_path / "cache", 1, False) for each in (one, one.but(validation=0.4)))
    store(first, url)
    before = stores.objects(url)
    with pytest.raises(DataError, match=r"index\.json: is the index of other data; name another place, or delete"):
        store(second, url)
    assert stores.objects(url) == before
    stores.removed(stores.joined(url, "train-00000.bin"))
    store(first, url)
    assert prepare(one.but(paths=(url,)), tmp_path / "cache", 1, False).digest == first.digest


def test_texts_beside_another_index_are_read(url: str, folder: Path, tmp_path: Path, monkeypatch) -> None:
    put(url, folder)
    data = Text(paths=(url,), tokenizer=Bytes())
    assert not is_prepared(data)
    for content in (b"", b"{}", b'{"pages": ["0.txt"]}'):
        with stores.opened(stores.joined(url, "index.json"), "wb") as file:
            file.write(content)
        assert not is_prepared(data)
    assert prepare(data, tmp_path / "cache", 1, False).sources
    original = stores._system

    def forbidden(url: str, **options: object) -> tuple:
        if url.endswith("index.json"):
            raise PermissionError("403")
        return original(url, **options)

    monkeypatch.setattr(stores, "_system", forbidden)
    assert not is_prepared(data)


def test_urls_of_data_have_no_secrets(folder: Path) -> None:
    url = "sftp://user:hidden@host/data"
    asked = (
        lambda: Text(paths=(url,)),
        lambda: Text(paths=(str(folder),), validation_paths=(url,)),
        lambda: find_sources([url]),
        lambda: check_storable(Text(paths=(str(folder),)), url),
    )
    for ask in asked:
        with pytest.raises(UserError, match=r"sftp://user:\.\.\.: has a password or a token") as raised:
            ask()
        assert "hidden" not in str(raised.value)


def test_prepared_records_in_a_store_are_those_of_the_disk(url: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": prose(n, 9), "target": prose(n, 3)}) + "\n" for n in range(50)))
    fields = {"tokenizer": Bytes(), "validation": 0.2}
    here = prepare(TextPairs(paths=(str(path),), **fields), tmp_path / "cache", 1, False)
    store(here, url)
    there = prepare(TextPairs(paths=(url,), **fields), tmp_path / "cache", 1, False)
    assert there.digest == here.digest
    for record in range(len(here.train)):
        assert all(np.array_equal(there.train[record][name], here.train[record][name]) for name in here.train.columns)


def test_only_what_a_batch_needs_is_asked_for_and_together(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(stored_numbers, "BLOCK", 64)
    url = f"memory://{tmp_path.name}/few"
    fields = {"tokenizer": Bytes(), "validation": 0.2}
    store(prepare(Text(paths=(str(folder),), **fields), tmp_path / "cache", 1, False), url)
    asked, original = [], stores.ranges
    monkeypatch.setattr(stores, "ranges", lambda url, spans: asked.append((url, spans)) or original(url, spans))
    corpus = prepare(Text(paths=(url,), **fields), tmp_path / "cache", 1, False)
    assert asked == [], "opening reads no token, however many there are"
    batch = Batches(corpus.train, 16, 4, seed=0).at(3)
    assert len(asked) == 1, "the rows of a batch are one question"
    assert sum(stop - start for _, spans in asked for start, stop in spans) <= 4 * 2 * 64
    assert np.array_equal(Batches(corpus.train, 16, 4, seed=0).at(3).tokens, batch.tokens)
    assert len(asked) == 1, "what was asked for last is held"


def test_blocks_are_held_up_to_a_bound(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}/bound"
    with stores.opened(url, "wb") as file:
        file.write(np.arange(BLOCK, dtype="<u2").tobytes() * 3)
    cache = BlockCache(held=2 * BLOCK)
    numbers = StoredNumbers(url, 3 * BLOCK, np.dtype("<u2"), cache)
    assert np.array_equal(numbers[:], np.tile(np.arange(BLOCK, dtype="<u2"), 3))
    assert len(cache._blocks) == 2


def test_what_is_wrong_with_an_object_is_told_with_its_name(url: str, folder: Path, tmp_path: Path) -> None:
    put(url, folder)
    for path, said in (
        (stores.joined(url, "absent"), r"/absent: there is no object at this URL, nor any beneath it"),
        ("nosuch://x/y", "fsspec knows no nosuch://"),
    ):
        with pytest.raises((DataError, StoreError), match=said):
            prepare(Text(paths=(path,)), tmp_path / "cache", 1, False)
    with pytest.raises(DataError, match=r"no object beneath it matches \*\.csv, only .*txt"):
        prepare(Text(paths=(url,), glob=("*.csv",)), tmp_path / "cache", 1, False)
    fields = {"tokenizer": Bytes(), "validation": 0.2}
    corpus = prepare(Text(paths=(str(folder),), **fields), tmp_path / "cache", 1, False)
    tokens = stores.joined(url, "tokens")
    store(corpus, tokens)
    opened = prepare(Text(paths=(tokens,), **fields), tmp_path / "cache", 1, False)
    gone = stores.joined(tokens, "train-00000.bin")
    stores.removed(gone)
    with pytest.raises(StoreError, match=r"train-00000\.bin: there is no such object"):
        Batches(opened.train, 16, 4, seed=0).at(0)
    with pytest.raises(DataError, match=r"train-00000\.bin: there is no such object, and the index names it"):
        prepare(Text(paths=(tokens,), **fields), tmp_path / "cache", 1, False)
    with stores.opened(gone, "wb") as file:
        file.write(b"123")
    with pytest.raises(DataError, match=r"train-00000\.bin: has 3 bytes, should have"):
        prepare(Text(paths=(tokens,), **fields), tmp_path / "cache", 1, False)


def test_prepared_data_must_be_described_as_it_was(folder: Path, tmp_path: Path) -> None:
    fields = {"tokenizer": Bytes(), "validation": 0.2}
    corpus = prepare(Text(paths=(str(folder),), **fields), tmp_path / "cache", 1, False)
    place = str(corpus.directory)
    with pytest.raises(DataError, match=r"was prepared with validation = 0\.2, and this run has 0\.1"):
        prepare(Text(paths=(place,), tokenizer=Bytes(), validation=0.1), tmp_path / "cache", 1, False)
    with pytest.raises(DataError, match=r"was prepared with tokenizer = .*bytes.*, and this run has .*400"):
        prepare(Text(paths=(place,), tokenizer=BytePairs(vocab=400), validation=0.2), tmp_path / "cache", 1, False)
    as_file = Text(paths=(place,), tokenizer=TokenizerFile(path=place), validation=0.2)
    assert prepare(as_file, tmp_path / "cache", 1, False).digest == corpus.digest


def test_an_object_that_changes_makes_the_tokens_again(url: str, tmp_path: Path) -> None:
    one = stores.joined(url, "one.txt")
    digests = []
    for number in range(2):
        with stores.opened(one, "wb") as file:
            file.write(prose(number, 500)[:2000].encode())
        digests.append(prepare(Text(paths=(one,), tokenizer=Bytes()), tmp_path / "cache", 1, False).digest)
    assert digests[0] != digests[1]


def test_opening_hashes_nothing_twice(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Text(paths=(str(folder),), tokenizer=Bytes())
    made = prepare(data, tmp_path / "cache", 1, False)
    hashed = []
    original = shards.sha256
    monkeypatch.setattr(shards, "sha256", lambda path: hashed.append(path.name) or original(path))
    for _ in range(2):
        assert prepare(data, tmp_path / "cache", 1, False, verify=True).digest == made.digest
    assert hashed == []
    (made.directory / "train-00000.bin").touch()
    for _ in range(2):
        Corpus.open(made.directory, verify=True)
    assert hashed == ["train-00000.bin"]
