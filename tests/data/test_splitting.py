from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from anyformer.data import Bytes, Characters, Corpus, Split
from anyformer.text import DataError
from data.texts import Prepare, prose

BYTES = Bytes()


def _documents(corpus: Corpus, split: Split) -> list[str]:
    bounds = [*split.starts.tolist(), len(split)]
    return [corpus.tokenizer.decode(split.tokens[a:b].tolist()) for a, b in itertools.pairwise(bounds)]


def test_a_single_file_is_split_by_characters_before_tokenising(tmp_path: Path, make: Prepare) -> None:
    text = prose(1, 2000)
    (tmp_path / "a.txt").write_text(text)
    corpus = make(paths=(str(tmp_path / "a.txt"),), tokenizer=Characters(), validation=0.1)
    place = int(len(text) * 0.9)
    decode = corpus.tokenizer.decode
    assert decode(corpus.train.tokens[:].tolist(), special=True) == text[:place]
    assert decode(corpus.validation.tokens[:].tolist(), special=True) == text[place:]
    assert corpus.train.bytes == len(text[:place].encode())
    assert corpus.train.bytes + corpus.validation.bytes == len(text.encode())


def test_documents_are_held_out_whole_and_stay_when_others_are_added(library: Path, make: Prepare) -> None:
    def held_out() -> tuple[set[str], set[str]]:
        corpus = make(paths=(str(library),), tokenizer=BYTES, validation=0.2)
        assert (np.array([corpus.validation.tokens[int(s) - 1] for s in corpus.validation.starts[1:]]) == 256).all()
        return set(_documents(corpus, corpus.train)), set(_documents(corpus, corpus.validation))

    train, validation = held_out()
    texts = {path.read_text() for path in library.iterdir()}
    assert train | validation == texts
    assert not train & validation
    assert 4 <= len(validation) <= 24
    (library / "00-new.txt").write_text(prose(1000, 80))
    more_train, more_validation = held_out()
    assert train <= more_train
    assert validation <= more_validation
    assert len(more_train) + len(more_validation) == 61


def test_few_documents_are_split_by_the_tail_of_the_whole(tmp_path: Path, make: Prepare) -> None:
    texts = [prose(number, 300) for number in range(3)]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    corpus = make(paths=(str(tmp_path),), glob=("*.txt",), tokenizer=BYTES, validation=0.25)
    train, validation = _documents(corpus, corpus.train), _documents(corpus, corpus.validation)
    whole = "".join(texts)
    assert "".join(train) == whole[: int(len(whole) * 0.75)]
    assert "".join(train) + "".join(validation) == whole
    # Whole documents end with the end of text, the cut one does not.
    assert (corpus.train.tokens[:] == 256).sum() == len(train) - 1
    assert corpus.validation.tokens[-1] == 256


@pytest.mark.parametrize("count", [2, 3])
def test_neither_split_by_documents_is_ever_empty(tmp_path: Path, make: Prepare, count: int) -> None:
    for number in range(count):
        (tmp_path / f"{number}.txt").write_text(prose(number, 10))
    for fraction in (0.01, 0.99):
        corpus = make(paths=(str(tmp_path),), glob=("*.txt",), tokenizer=BYTES, validation=fraction, split="documents")
        assert min(len(corpus.train.starts), len(corpus.validation.starts)) == 1


def test_one_document_cannot_be_split_by_documents(tmp_path: Path, make: Prepare) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(DataError, match=r"a\.txt: .*use split = 'tail'"):
        make(paths=(str(tmp_path / "a.txt"),), split="documents")


def test_validation_paths_are_held_out_even_if_also_in_paths(library: Path, make: Prepare) -> None:
    corpus = make(paths=(str(library),), validation_paths=(str(library / "07.txt"),), tokenizer=BYTES)
    assert _documents(corpus, corpus.validation) == [(library / "07.txt").read_text()]
    assert len(corpus.train.starts) == 59
    with pytest.raises(DataError, match="nothing is left to train on"):
        make(paths=(str(library / "07.txt"),), validation_paths=(str(library),))


def test_no_validation(library: Path, make: Prepare) -> None:
    corpus = make(paths=(str(library),), tokenizer=BYTES, validation=0.0)
    assert (len(corpus.validation), len(corpus.validation.starts), len(corpus.train.starts)) == (0, 0, 60)


@pytest.mark.parametrize("tail", [True, False])
def test_held_out_text_does_not_shape_the_vocabulary(tmp_path: Path, make: Prepare, tail: bool) -> None:
    train, held_out = "plain words only " * 50, "zyzzyva " * 500
    (tmp_path / "train.txt").write_text(train)
    (tmp_path / "held.txt").write_text(held_out)
    (tmp_path / "both.txt").write_text(train + held_out)
    if tail:
        corpus = make(paths=(str(tmp_path / "both.txt"),), validation=len(held_out) / len(train + held_out))
    else:
        corpus = make(paths=(str(tmp_path / "train.txt"),), validation_paths=(str(tmp_path / "held.txt"),))
    assert len(corpus.tokenizer.encode(" words")) == 1
    assert len(corpus.tokenizer.encode(" zyzzyva")) > 5
