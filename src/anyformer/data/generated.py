"""Data that is made, not read: the base of such kinds, and the tokenizer of their symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import tokenizers
from pydantic import field_validator
from tokenizers import models, pre_tokenizers

from anyformer.data.corpus import ENDLESS, Corpus, Endless
from anyformer.data.description import Data
from anyformer.data.tokenizer_specs import Symbols, TokenizerFile, TokenizerSpec
from anyformer.text.errors import DataError
from anyformer.text.specials import UNKNOWN, Specials
from anyformer.text.tokenizers import Tokenizer


class Generated(Data):
    """Examples that are made from a seed. The base of every such kind."""

    tokenizer: TokenizerSpec = Symbols()
    """The data's own symbols; or a file that has them all, as a model that was trained on them keeps."""

    @field_validator("tokenizer")
    @classmethod
    def _of_symbols(cls, tokenizer: TokenizerSpec) -> TokenizerSpec:
        if not isinstance(tokenizer, Symbols | TokenizerFile):
            raise ValueError(f"kind = {tokenizer.kind!r} is for text, and this data has symbols of its own: leave it out")
        return tokenizer

    @property
    def components(self) -> Mapping[str, Self]:
        return {"": self}

    @property
    def places(self) -> tuple[str, ...]:
        return (self.called,)

    @property
    def holds_out(self) -> bool:
        return True

    @property
    def called(self) -> str:
        """What it is, where other data has its paths."""
        raise NotImplementedError

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of its symbols: words without a space."""
        raise NotImplementedError

    @property
    def read_at_once(self) -> int:
        """Held-out examples that are read where all are asked for."""
        raise NotImplementedError

    def corpus(self, cache: Path) -> Corpus:
        """Its splits; nothing of them is on disk."""
        tokenizer = tokenizer_of(self.tokenizer, self.symbols)
        digest = hashlib.sha256(f"{self.but(tokenizer=Symbols()).digest} {tokenizer.digest}".encode()).hexdigest()
        train, held_out = Endless("train", ENDLESS), Endless("validation", self.read_at_once)
        return Corpus(cache, tokenizer, train, held_out, (), digest, {}, {})


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
            f"the tokenizer lacks {missing!r}, the first of {len(symbols)} symbols of this data that it has not: leave "
            "data.tokenizer out, so that the data has its own"
        )
    return [vocabulary[name] for name in symbols]
