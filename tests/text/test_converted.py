"""Tokenizers whose files are those of their first libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tokenizers
from transformers import AutoTokenizer

import anyformer as af
from anyformer.text import DataError, Tokenizer
from huggingface.layouts import LAYOUTS, SMALL, TEXT, tokenizer, write

CONFIG = json.dumps({"model_type": "gpt2", "vocab_size": SMALL["vocab_size"]})
ODD = (TEXT, " two  spaces", "", "🙂é\t\n", "</s> spelt")


def started_at(place: Path) -> tuple[str, ...]:
    """The command that goes on with the model in a folder."""
    files = {"--start-from": "base", "--data": "text.txt", "--out": "run"}
    return ("train", *(word for option, name in files.items() for word in (option, str(place / name))))


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A directory with vocab.json and merges.txt, as GPT-2 was published."""
    inner = tokenizer("$A")
    inner.model.save(str(tmp_path))
    (tmp_path / "config.json").write_text(CONFIG)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", "eos_token": "</s>"}))
    return tmp_path


def test_words_and_merges_are_a_tokenizer(words: Path) -> None:
    ours, theirs = Tokenizer.load(words), AutoTokenizer.from_pretrained(words)
    for text in ODD:
        assert ours.encode(text) == theirs(text, split_special_tokens=True)["input_ids"], text
        assert ours.decode(ours.encode(text)) == text
    assert (ours.end_of_text, theirs.eos_token_id) == (2, 2)
    assert "tokenizer.json" not in ours.beside, "what was read is written back"


def test_without_transformers_it_is_refused_before_any_work(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(DataError, match=r"its tokenizer is in vocab\.json, which transformers converts.*anyformer\[hf\]"):
        Tokenizer.load(words)


def test_a_file_that_transformers_cannot_convert_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (tmp_path / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(DataError, match=r"transformers makes no tokenizer of tokenizer\.model"):
        Tokenizer.load(tmp_path)


def test_training_goes_on_with_the_tokenizer_of_words_and_merges(tmp_path: Path, call) -> None:
    write(LAYOUTS["GPT-2"], tmp_path / "base")
    (tmp_path / "base" / "tokenizer.json").unlink()
    named = dict.fromkeys(("unk_token", "bos_token", "eos_token"), "</s>")
    (tmp_path / "base" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", **named}))
    tokenizers.Tokenizer.from_str(tokenizer("$A").to_str()).model.save(str(tmp_path / "base"))
    (tmp_path / "text.txt").write_text(TEXT * 40)
    settings = ("steps=1", "batch=2", "length=16", "plan.compile=off")
    done = call(*started_at(tmp_path), *(word for each in settings for word in ("--set", each)))
    assert done.returncode == 0, done.stderr
    assert call("export", str(tmp_path / "run"), str(tmp_path / "out")).returncode == 0
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json", "config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "base" / name).read_bytes(), name
    _, text = af.load(tmp_path / "out")
    assert text == Tokenizer.load(tmp_path / "base")
    assert AutoTokenizer.from_pretrained(tmp_path / "out")(TEXT)["input_ids"] == text.encode(TEXT)


def test_a_table_of_unknown_tokens_is_no_start(tmp_path: Path, call) -> None:
    """A pretrained table means nothing under a tokenizer that is learnt anew, unless that is asked for."""
    write(LAYOUTS["line ends of another system"], tmp_path / "base")
    (tmp_path / "text.txt").write_text(TEXT * 40)
    run = (
        "train",
        "--start-from",
        str(tmp_path / "base"),
        "--data",
        str(tmp_path / "text.txt"),
        "--out",
        str(tmp_path / "run"),
    )
    done = call(*run)
    assert done.returncode == 2
    assert "has a table of tokens and no tokenizer" in done.stderr
    assert not (tmp_path / "run").exists()
