"""Tokenizers made from their descriptions and, if they are learnt, from text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import tokenizers
from tokenizers import decoders, models, processors

from anyformer.data.recipes import alphabet, byte_level, check_room
from anyformer.data.tokenizer_specs import (
    Bytes,
    Characters,
    LearntSpec,
    Symbols,
    TokenizerFile,
    TokenizerSpec,
    WordPiece,
    WordTokenizer,
)
from anyformer.data.tokenizer_training import NONE, learn, learn_in_process
from anyformer.text.errors import DataError
from anyformer.text.lookup import byte_letters
from anyformer.text.specials import FRAMING, ROLES, UNKNOWN, Specials
from anyformer.text.tokenizers import Tokenizer

TRAINING_PIECE = 16 * 1024
"""Characters per piece given to the library's trainers, which hold 256 pieces at a time."""
Texts = Callable[[], Iterable[str]]


def make_tokenizer(
    spec: TokenizerSpec, training: Texts, everything: Texts, special: Specials = NONE, in_process: bool = False
) -> Tokenizer:
    """The tokenizer that `spec` describes; `training()` streams the text it may learn from, `everything()` the whole text.

    It has the tokens of `special`: one that is made here gets them, inside its `vocab` if it has one; in a file they must be,
    and `DataError` names the first that is missing. `in_process`: learn in a process of its own, which a signal can end.
    """
    match spec:
        case TokenizerFile():
            return _loaded(spec, special)
        case Bytes():
            return _bytes(special)
        case Characters():
            return _characters(spec, everything(), special)
        case Symbols():
            raise DataError("tokenizer kind 'symbols' is for generated data, and this data is text; choose another one")
        case _:
            return _learnt(spec, training, in_process, special)


def sample(texts: Iterable[str], share: float) -> Iterator[str]:
    """About `share` of the texts, spread evenly over all of them, always the same ones."""
    taken = 0
    for number, text in enumerate(texts, start=1):
        if share >= 1.0 or number * share >= taken + 1:
            taken += 1
            yield text


def _loaded(spec: TokenizerFile, special: Specials) -> Tokenizer:
    tokenizer = Tokenizer.load(spec.path)
    for role in special.roles:
        if not (special.frames and role in FRAMING):
            tokenizer.special(role)
    tokenizer.sentinels(special.sentinels)
    return tokenizer


def _learnt(spec: LearntSpec, training: Texts, in_process: bool, special: Specials) -> Tokenizer:
    check_room(spec, special)
    # Of tokens that have an alphabet the text is read twice.
    letters = alphabet(spec, special, training())
    definition = (learn_in_process if in_process else learn)(spec, training(), special, letters)
    unknown = UNKNOWN if isinstance(spec, WordPiece | WordTokenizer) else None
    return _framing(definition, special, unknown)


def _bytes(special: Specials) -> Tokenizer:
    inner = byte_level(models.BPE(vocab=byte_letters(), merges=[]))
    inner.add_special_tokens(list(special.names))
    return _framing(inner.to_str(), special)


def _characters(spec: Characters, texts: Iterable[str], special: Specials) -> Tokenizer:
    characters = set(chain.from_iterable(texts))
    if not characters:
        raise DataError("tokenizer kind 'characters' has no text to learn from; give it some, or use kind 'bytes'")
    extra: dict[str, Any] = {"unk_token": "\ufffd"} if spec.unknown == "replace" else {}
    vocabulary = {character: number for number, character in enumerate(sorted(characters | set(extra.values())))}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], **extra))
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens(list(special.names))
    return _framing(inner.to_str(), special)


def _framing(definition: str, special: Specials, unknown: str | None = None) -> Tokenizer:
    """The tokenizer of a definition, which puts `[CLS]` before a text and `[SEP]` behind it if these are asked for."""
    if special.frames:
        inner = tokenizers.Tokenizer.from_str(definition)
        first, last = (ROLES[role].own for role in FRAMING)
        inner.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}",
            pair=f"{first} $A {last} $B:1 {last}:1",
            special_tokens=[(word, inner.token_to_id(word)) for word in (first, last)],
        )
        definition = inner.to_str()
    return Tokenizer.parse(definition, special.config(unknown))
