"""`Tokenizer`: text to token numbers and back, as one frozen object over the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders

from anyformer.describe import json_data
from anyformer.text.beside import CONFIG, TOKENIZER, TOKENIZER_CONFIG, Beside, place_of
from anyformer.text.bombs import check_growth, library_limits
from anyformer.text.cleaning import cleaned, cleans
from anyformer.text.conventions import Conventions
from anyformer.text.converted import converted, source_of
from anyformer.text.definition import END_NAMES, complete, end_of_text, library, settings, text_of, unknown
from anyformer.text.errors import DataError, check_unicode
from anyformer.text.expressions import check_expressions
from anyformer.text.frame import Frame, Framed
from anyformer.text.languages import spoken
from anyformer.text.leaks import Leaks
from anyformer.text.lookup import CodeTable
from anyformer.text.specials import ROLES, SENTINEL_NAMES, RoleName, candidates, named, plain_config

TokenArray = NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Token numbers of text. Special tokens are never made from text: `<|endoftext|>` or `[MASK]` in a document is ordinary
    characters.

    `vocab_size` is the highest number + 1, `end_of_text` the number that separates documents (None if there is none); two
    tokenizers are equal if their digests are.
    """

    vocab_size: int
    end_of_text: int | None
    definition: str = field(repr=False)
    """The text of `tokenizer.json`."""
    completed: str = field(repr=False)
    """The same with every special token that the files beside it name."""
    beside: Beside = field(repr=False)
    """All that stands beside the model's weights, which is written as it was read."""
    conventions: Conventions = field(repr=False)
    """How the model's authors run it."""
    _inner: tokenizers.Tokenizer = field(repr=False)
    _config: Mapping[str, Any] = field(repr=False)
    _lookup: CodeTable | None = field(repr=False)
    _leaks: Leaks | None = field(repr=False)
    _where: str = field(repr=False)

    @classmethod
    def parse(cls, definition: str, config: Mapping[str, Any] | None = None) -> Self:
        """From the text of a `tokenizer.json` (and the table of its `tokenizer_config.json`)."""
        files = {TOKENIZER: definition.encode()}
        if config is not None:
            files[TOKENIZER_CONFIG] = (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
        return cls.of(Beside(files))

    @classmethod
    def of(cls, beside: Beside) -> Self:
        """From the files beside a model's weights; without a `tokenizer.json`, from those that transformers converts."""
        where, config = str(Path(beside.where) / TOKENIZER), settings(beside)
        definition = beside.text(TOKENIZER)
        if definition is None:
            definition = converted(beside)
        try:
            with library_limits():
                table = complete(json_data(definition), config)
                check_growth(table)
                check_expressions(table)
                completed = text_of(table)
                inner = library(completed)
                inner.encode_special_tokens = True
                leaks = Leaks.of(inner, unknown(table["model"]))
        except Exception as error:  # the library raises plain Exception
            raise DataError(f"{where}: not a tokenizer.json that the tokenizers library reads ({error})") from None
        words = inner.get_vocab(with_added_tokens=True)
        end = end_of_text(table, config)
        return cls(
            vocab_size=max(words.values(), default=-1) + 1,
            end_of_text=words[end] if end is not None else None,
            definition=definition,
            completed=completed,
            beside=beside,
            conventions=Conventions.of(beside),
            _inner=inner,
            _config=config or plain_config(end),
            _lookup=CodeTable.of(table),
            _leaks=leaks,
            _where=where,
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """From a `tokenizer.json`, a directory that has one, a checkpoint, or a model of a hub."""
        place = place_of(path)
        if not place.exists():
            raise DataError(f"{place}: no such file; a tokenizer is a tokenizer.json or a directory that has one")
        found = cls.search(place)
        if found is None:
            raise DataError(f"{place}: has no {TOKENIZER}; a tokenizer is a tokenizer.json or a directory that has one")
        return found

    @classmethod
    def search(cls, place: Path) -> Self | None:
        """The tokenizer of a directory or a file; None where there is none."""
        return cls.found(Beside.read(place))

    @classmethod
    def found(cls, beside: Beside) -> Self | None:
        """The tokenizer among the files beside a model's weights; None where there is none."""
        return cls.of(beside) if has_tokenizer(beside) else None

    @property
    def start(self) -> int | None:
        """What a decoder that reads a source begins with: the authors' token, else the one that ends a text."""
        return self.end_of_text if self.conventions.start is None else self.conventions.start

    def save(self, directory: str | Path) -> None:
        """Write all that stands beside the weights, which `load` and Hugging Face's AutoTokenizer read."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.beside.write(folder)

    def framed(self, text: Sequence[int], pair: Sequence[int] | None = None) -> Framed:
        """The tokens of a text, or of a pair, with what this tokenizer puts around them, as transformers' `tokenizer(text)`."""
        return self.frame.single.framed([text]) if pair is None else self.frame.pair.framed([text, pair])

    @cached_property
    def frame(self) -> Frame:
        """What this tokenizer puts around texts."""
        named = spoken(self._config, self.beside.table(CONFIG))
        return Frame.of(self._inner, self.vocab_size) if named is None else named.frame(named.source, self.number, self.end)

    @property
    def ends(self) -> tuple[int, ...]:
        """Every token that ends a generated text: those that the model's authors name, else the one that ends a document."""
        return self.conventions.ends or (() if self.end_of_text is None else (self.end_of_text,))

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`, nothing added; `DataError` for text that this tokenizer cannot represent."""
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    @library_limits()
    def encode_batch(self, texts: Sequence[str], threads: bool = True) -> list[TokenArray]:
        """`encode` of every text, as arrays; with `threads` on all cores."""
        for text in texts:
            check_unicode(text)
        if self._lookup is not None:
            return [self._lookup.encode(text) for text in texts]
        leaks = self._leaks
        if leaks is not None and any(map(leaks.touch, texts)):
            return [_array(leaks.encode(self._inner, text)) for text in texts]
        # The library's fast path keeps no offsets; one text per call keeps it to one thread.
        calls = [list(texts)] if threads else [[text] for text in texts]
        found = [each.ids for call in calls for each in self._inner.encode_batch_fast(call, add_special_tokens=False)]
        if leaks is not None:
            made = leaks.numbers
            found = [
                ids if made.isdisjoint(ids) else leaks.encode(self._inner, text) for text, ids in zip(texts, found, strict=True)
            ]
        return [_array(ids) for ids in found]

    @library_limits()
    def offsets(self, text: str) -> NDArray[np.int64]:
        """(tokens, 2): the characters of `text` that a token of `encode(text)` stands for, from the first to behind the
        last."""
        touched = self._leaks is not None and (
            self._leaks.touch(text)
            or not self._leaks.numbers.isdisjoint(self._inner.encode(text, add_special_tokens=False).ids)
        )
        pieces = self._leaks.pieces(self._inner, text) if touched and self._leaks is not None else [text]
        found, begin = [np.zeros((0, 2), dtype=np.int64)], 0
        for piece in pieces:
            offsets = self._inner.encode(piece, add_special_tokens=False).offsets
            found.append(np.array(offsets, dtype=np.int64).reshape(-1, 2) + begin)
            begin += len(piece)
        return np.concatenate(found)

    @library_limits()
    def decode(self, ids: Iterable[int], special: bool = False, clean: bool = True) -> str:
        """The text of tokens; special tokens are left out unless `special`; bytes that are no UTF-8 become U+FFFD. Without
        `clean`, blanks that this tokenizer takes out stay."""
        text = self._inner.decode(list(ids), skip_special_tokens=not special)
        return cleaned(text) if clean and self.cleans else text

    @cached_property
    def cleans(self) -> bool:
        """Whether `decode` takes blanks out."""
        return cleans(self._config, self._inner)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens, which are never made from text, and their numbers."""
        added = self._inner.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}

    @property
    def end(self) -> int:
        """The token that ends a text; `DataError` if there is none."""
        if self.end_of_text is None:
            raise self._lacks("token that ends a text", f"none of {', '.join(END_NAMES)}")
        return self.end_of_text

    def find(self, role: RoleName) -> int | None:
        """The special token of a role, as the `tokenizer_config.json` or a usual name says; None if there is none."""
        tokens = self.special_tokens
        return next((tokens[name] for name in candidates(role, self._config) if name in tokens), None)

    def special(self, role: RoleName) -> int:
        """The special token of a role; `DataError` says which names were looked for."""
        number = self.find(role)
        if number is None:
            key = ROLES[role].key
            asked = f"its configuration names none under {key!r}, and " if key else ""
            raise self._lacks(f"special token for the role {role!r}", f"{asked}none of {', '.join(candidates(role, {}))}")
        return number

    def sentinels(self, count: int) -> tuple[int, ...]:
        """`count` sentinels, which stand for spans that are left out, in the order of their names; `DataError` if there are
        fewer."""
        tokens = self.special_tokens
        most = 0
        for name in SENTINEL_NAMES:
            found = [tokens[name.format(place)] for place in range(count) if name.format(place) in tokens]
            if len(found) == count:
                return tuple(found)
            most = max(most, len(found))
        names = ", ".join(f"{name.format(0)} to {name.format(count - 1)}" for name in SENTINEL_NAMES)
        raise self._lacks(f"{count} sentinels, only {most}", f"not all of {names}")

    @property
    def config(self) -> Mapping[str, Any]:
        """The table of its `tokenizer_config.json`."""
        return self._config

    def named(self, key: str) -> str | None:
        """The token that its configuration names under `key`."""
        return named(self._config, key)

    @property
    def instant(self) -> bool:
        """Whether encoding is a table look-up, for which no parallelism pays."""
        return self._lookup is not None

    def number(self, token: str) -> int | None:
        """The number of a token in the library's own spelling; None if there is none."""
        return self._inner.token_to_id(token)

    def token(self, number: int) -> str | None:
        """The library's own spelling of a token; None outside the vocabulary."""
        return self._inner.id_to_token(number)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the definition, whatever the order of its keys; made when it is asked for, since it takes as long as
        to read the definition.
        """
        return hashlib.sha256(json.dumps(json.loads(self.definition), sort_keys=True).encode()).hexdigest()

    @property
    def byte_level(self) -> bool:
        """Whether tokens spell bytes (GPT-2's 256 letters), so that one token may be part of a character."""
        return isinstance(self._inner.decoder, decoders.ByteLevel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _lacks(self, what: str, looked: str) -> DataError:
        has = list(self.special_tokens)
        shown = ", ".join(has[:8]) + (f" and {len(has) - 8} more" if len(has) > 8 else "")
        return DataError(
            f"{self._where}: this tokenizer has no {what}: {looked} is among its special tokens ({shown or 'none'}); learn a "
            "tokenizer here, which then has them, or add them to the file with transformers "
            "(`tokenizer.add_special_tokens`, `tokenizer.save_pretrained`) and give the model as many rows more"
        )


def has_tokenizer(beside: Beside) -> bool:
    """Whether a tokenizer is among the files beside a model's weights."""
    return TOKENIZER in beside or source_of(beside) is not None


def _array(ids: list[int]) -> TokenArray:
    return np.array(ids, dtype=np.uint32)
