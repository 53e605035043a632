"""The vocabulary with which llama.cpp splits text as a tokenizer does: chosen by what both make of 300 strings."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import tokenizers

from anyformer.describe import Notice
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.vocabulary.definition import definition, words_of
from anyformer.huggingface.gguf.vocabulary.expressions import BY_NAME, PreTokenizer
from anyformer.huggingface.gguf.vocabulary.fitting import fitted
from anyformer.huggingface.gguf.vocabulary.making import candidates, where, with_ends
from anyformer.huggingface.gguf.vocabulary.value import MODEL, GgufVocabulary
from anyformer.text import Tokenizer
from anyformer.text.definition import library, text_of

_OWN = 24
"""Special tokens that are tried inside text, of each tokenizer the first and the last."""


@cache
def strings() -> tuple[str, ...]:
    """300 strings: scripts, digits, blanks, line ends, contractions, emoji, code, rare marks, long runs, control characters."""
    return tuple(json.loads(files(__package__).joinpath("strings.json").read_text("utf-8")))


def keys(tokenizer: Tokenizer | None, rows: int) -> dict[str, Any]:
    """The metadata of a tokenizer for a table of `rows` rows; None: of a model without one.

    A whole number is a uint32 there, in lists an int32; a real one a float32; bytes are an array of uint8.
    """
    return {MODEL: "no_vocab"} if tokenizer is None else vocabulary_of(tokenizer, rows).keys()


def vocabulary_of(tokenizer: Tokenizer, rows: int | None = None) -> GgufVocabulary:
    """The vocabulary of a tokenizer for a table of `rows` rows. `HuggingFaceError` names the first string that none splits
    as the tokenizer does; a `Notice` says what is left out that llama.cpp does not do."""
    table, notices = fitted(json.loads(tokenizer.completed))
    texts = [*strings(), *_with_specials(table)]
    theirs = library(text_of(table))
    wanted = _ids(theirs, texts)
    nearest: tuple[int, GgufVocabulary | None] = (-1, None)
    for vocabulary, split in _splitting(_sorted(candidates(tokenizer, table, rows or tokenizer.vocab_size), theirs, table)):
        place = _first_difference(split, texts, wanted)
        if place == len(texts):
            for notice in notices:
                warnings.warn(f"{where(tokenizer)}: {notice}", Notice, stacklevel=2)
            return with_ends(vocabulary, tokenizer)
        nearest = max(nearest, (place, vocabulary), key=lambda found: found[0])
    place, best = nearest
    assert best is not None
    raise HuggingFaceError(
        f"{where(tokenizer)}: llama.cpp has no way to split text as this tokenizer does: of {len(texts)} strings the nearest "
        f"({best.model}, {best.pre}) first differs at {texts[place]!r}; write the model without its tokenizer, and give "
        "llama.cpp token numbers"
    )


def _sorted(found: Iterator[GgufVocabulary], theirs: tokenizers.Tokenizer, table: dict[str, Any]) -> list[GgufVocabulary]:
    """Vocabularies, those first whose pre-tokenizers cut most of the strings where the tokenizer's own does."""
    whole = bool(table["model"].get("ignore_merges"))
    own = theirs.pre_tokenizer
    cuts = () if own is None or not table["model"].get("merges") else _cuts(own)

    def likeness(vocabulary: GgufVocabulary) -> tuple[int, bool]:
        pre = BY_NAME[vocabulary.pre]
        if not pre.letters or not cuts:
            return 0, False
        same = sum(mine == cut for mine, cut in zip(_cuts_of(pre), cuts, strict=True))
        return -same, pre.whole_words != whole

    return sorted(found, key=likeness)


@cache
def _cuts_of(pre: PreTokenizer) -> tuple[list[tuple[int, int]], ...]:
    return _cuts(_stage(words_of(pre)))


def _cuts(stage: Any) -> tuple[list[tuple[int, int]], ...]:
    """Where a pre-tokenizer cuts the strings."""
    return tuple([span for _, span in stage.pre_tokenize_str(text)] for text in strings())


def _splitting(found: Iterable[GgufVocabulary]) -> Iterator[tuple[GgufVocabulary, tokenizers.Tokenizer]]:
    """Vocabularies, each as a tokenizer; of those that differ in the pre-tokenizer alone one is made, and changed."""
    made: tuple[str, tokenizers.Tokenizer] | None = None
    for vocabulary in found:
        if vocabulary.model == "gpt2" and made is not None and made[0] == "gpt2" and BY_NAME[vocabulary.pre].letters:
            pre, inner = BY_NAME[vocabulary.pre], made[1]
            inner.pre_tokenizer = _stage(words_of(pre))
            inner.model.ignore_merges = pre.whole_words
        else:
            inner = library(text_of(definition(vocabulary)))
        made = (vocabulary.model, inner)
        yield vocabulary, inner


def _stage(stage: dict[str, Any]) -> Any:
    empty = {"version": "1.0", "added_tokens": [], "pre_tokenizer": stage, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    return tokenizers.Tokenizer.from_str(json.dumps(empty)).pre_tokenizer


def _first_difference(inner: tokenizers.Tokenizer, texts: list[str], wanted: list[list[int]]) -> int:
    return next((place for place, text in enumerate(texts) if _ids(inner, [text])[0] != wanted[place]), len(texts))


def _ids(inner: tokenizers.Tokenizer, texts: list[str]) -> list[list[int]]:
    return [inner.encode(text).ids for text in texts]


def _with_specials(table: dict[str, Any]) -> list[str]:
    """A tokenizer's own special tokens, inside text and side by side."""
    words = [token["content"] for token in table["added_tokens"]]
    words = list(dict.fromkeys([*words[:_OWN], *words[-_OWN:]]))
    found = [f"{word}a {word} b{word}{word}\n" for word in words]
    return [*found, "".join(words), " ".join(words)]
