"""Tokenizers made from their descriptions and, if they are learnt, from text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import tokenizers
from tokenizers import decoders, models

from anyformer.data.description import BytePairs, Bytes, Characters, TokenizerFile, TokenizerSpec
from anyformer.data.errors import DataError
from anyformer.data.learning import byte_level, learn, learn_in_process
from anyformer.data.lookup import byte_letters
from anyformer.data.tokenizers import END_OF_TEXT, Tokenizer

TRAINING_PIECE = 16 * 1024
"""Characters per piece given to the BPE trainer, which holds 256 pieces at a time."""
Texts = Callable[[], Iterable[str]]


def make_tokenizer(spec: TokenizerSpec, training: Texts, everything: Texts, in_process: bool = False) -> Tokenizer:
    """The tokenizer that `spec` describes; `training()` streams the text it may learn from, `everything()` the whole text.

    `in_process`: learn in a process of its own, which a signal can end.
    """
    match spec:
        case TokenizerFile():
            return Tokenizer.load(spec.path)
        case Bytes():
            return _bytes()
        case Characters():
            return _characters(spec, everything())
        case BytePairs():
            return Tokenizer.parse((learn_in_process if in_process else learn)(spec, training()))


def sample(texts: Iterable[str], share: float) -> Iterator[str]:
    """About `share` of the texts, spread evenly over all of them, always the same ones."""
    taken = 0
    for number, text in enumerate(texts, start=1):
        if share >= 1.0 or number * share >= taken + 1:
            taken += 1
            yield text


def _bytes() -> Tokenizer:
    inner = byte_level(models.BPE(vocab=byte_letters(), merges=[]))
    inner.add_special_tokens([END_OF_TEXT])
    return Tokenizer.parse(inner.to_str())


def _characters(spec: Characters, texts: Iterable[str]) -> Tokenizer:
    characters = set(chain.from_iterable(texts))
    if not characters:
        raise DataError("tokenizer kind 'characters' has no text to learn from; give it some, or use kind 'bytes'")
    extra: dict[str, Any] = {"unk_token": "\ufffd"} if spec.unknown == "replace" else {}
    vocabulary = {character: number for number, character in enumerate(sorted(characters | set(extra.values())))}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], **extra))
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens([END_OF_TEXT])
    return Tokenizer.parse(inner.to_str())
