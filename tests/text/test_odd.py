"""Odd strings through small tokenizers of every kind, against transformers with the same files."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from anyformer.text import DataError, Tokenizer
from anyformer.text.cleaning import Cleaning, cleaned
from text.against import differences
from text.kinds import CHARACTERS, KINDS, SPECIALS, unigram
from text.odd import HALVES, odd

ODD = odd()
CLEANED = ("it 's , no ?", "a ' b ' c", " n't n't", "they 're . . .", "x ' '  ' 's", " '", " ", "'ve ' ve 've", " ' .")


def both(place: Path, kind: str) -> tuple[Tokenizer, Any]:
    make, config = KINDS[kind]
    (place / "tokenizer.json").write_text(make().to_str())
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    return Tokenizer.load(place), AutoTokenizer.from_pretrained(place)


def test_there_are_three_hundred_strings() -> None:
    assert len(ODD) > 300
    assert any(unicodedata.normalize("NFC", text) != text for text in ODD)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["half", "all"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])
def test_odd_strings_are_read_and_said_as_in_transformers(tmp_path: Path, kind: str, whole: bool) -> None:
    """In each run every second string: those of the one kind are left out by the next."""
    asked = ODD if whole else ODD[list(KINDS).index(kind) % 2 :: 2]
    assert differences(*both(tmp_path, kind), asked) == []


def test_pieces_with_scores_are_those_of_transformers_but_for_special_tokens_that_text_spells(tmp_path: Path) -> None:
    """There such a model makes the special token, though the text is to be split; text never makes one here."""
    ours, theirs = both(tmp_path, "unigram")
    spelt = [text for text in ODD if any(word in unicodedata.normalize("NFKC", text) for word in SPECIALS[1:])]
    assert 5 < len(spelt) < 20
    assert differences(ours, theirs, [text for text in ODD if text not in spelt]) == []
    for text in spelt:
        assert set(ours.encode(text)).isdisjoint(ours.special_tokens[word] for word in SPECIALS[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_halves_of_surrogate_pairs_are_refused(tmp_path: Path, kind: str) -> None:
    ours, theirs = both(tmp_path, kind)
    for text in HALVES:
        with pytest.raises(DataError, match="half of a surrogate pair"):
            ours.encode(text)
        with pytest.raises((TypeError, UnicodeEncodeError)):
            theirs(text)


def test_the_table_of_characters_replaces_them() -> None:
    normalise = unigram().normalizer.normalize_str
    assert {key: normalise(f"a{key}b") for key in CHARACTERS} == {key: f"a{text}b" for key, text in CHARACTERS.items()}


@pytest.mark.parametrize("text", CLEANED)
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("before", [0, 1, 4])
def test_blanks_are_taken_out_of_pieces_as_of_the_whole(text: str, size: int, before: int) -> None:
    first, rest = text[:before], text[before:]
    cleaning = Cleaning(first)
    pieces = [cleaning.push(rest[at : at + size]) for at in range(0, len(rest), size)]
    if cleaned(text).startswith(cleaned(first)):
        assert cleaned(first) + "".join([*pieces, cleaning.finish()]) == cleaned(text)
