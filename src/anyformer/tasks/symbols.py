"""The symbols of a task as tokens: their tokenizer, and their numbers in it."""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers
from tokenizers import models, pre_tokenizers

from anyformer.data.tokenizer_specs import TokenizerFile, TokenizerSpec
from anyformer.text.errors import DataError
from anyformer.text.specials import UNKNOWN, Specials
from anyformer.text.tokenizers import Tokenizer


def tokenizer_of(spec: TokenizerSpec, symbols: Sequence[str]) -> Tokenizer:
    """The tokenizer of a list of symbols, or the one of a file that has them all."""
    if isinstance(spec, TokenizerFile):
        tokenizer = Tokenizer.load(spec.path)
        numbers_of(tokenizer, symbols)
        return tokenizer
    special = Specials()
    vocabulary = {name: number for number, name in enumerate((*special.names, *symbols, UNKNOWN))}
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(list(special.names))
    return Tokenizer.parse(inner.to_str(), special.config(UNKNOWN))


def vocabulary_of(symbols: Sequence[str]) -> int:
    """V: the symbols, the token that ends a text, and the one for what is no symbol."""
    return len(symbols) + 2


def numbers_of(tokenizer: Tokenizer, symbols: Sequence[str]) -> list[int]:
    """The number of each symbol; `DataError` names the first that is missing."""
    vocabulary = {tokenizer.token(number): number for number in range(tokenizer.vocab_size)}
    missing = next((name for name in symbols if name not in vocabulary), None)
    if missing is not None:
        raise DataError(
            f"the tokenizer lacks {missing!r}, the first of {len(symbols)} symbols of this data: leave "
            "data.tokenizer out, and the data brings its own"
        )
    return [vocabulary[name] for name in symbols]
