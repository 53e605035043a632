"""`Tokenizer`: text to token numbers and back, as one frozen object over the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray

from anyformer.data.errors import DataError
from anyformer.data.lookup import Lookup

TokenArray = NDArray[np.uint32]
END_OF_TEXT = "<|endoftext|>"
_END_NAMES = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>", "<|eos|>", "[EOS]", "[SEP]")
_FILE, _CONFIG = "tokenizer.json", "tokenizer_config.json"


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Token numbers of text. Special tokens are never made from text: `<|endoftext|>` in a document is ordinary characters.

    `vocab_size` is the highest number + 1, `end_of_text` the number that separates documents (None if there is none),
    `digest` the SHA-256 of the definition; two tokenizers are equal if their digests are.
    """

    vocab_size: int
    end_of_text: int | None
    digest: str
    definition: str = field(repr=False)
    """The text of `tokenizer.json`, kept as given so that saving changes no digest."""
    _inner: tokenizers.Tokenizer = field(repr=False)
    _config: Mapping[str, Any] = field(repr=False)
    _lookup: Lookup | None = field(repr=False)
    _leaks: re.Pattern[str] | None = field(repr=False)

    @classmethod
    def parse(cls, definition: str, config: Mapping[str, Any] | None = None, where: str = _FILE) -> Self:
        """From the text of a `tokenizer.json` (and the table of its `tokenizer_config.json`)."""
        try:
            table = json.loads(definition)
            inner = tokenizers.Tokenizer.from_str(_all_special(table, _end_of_text(table, config or {})))
        except Exception as error:  # the library raises plain Exception
            raise DataError(f"{where}: not a tokenizer.json that the tokenizers library reads ({error})") from None
        # A truncation or padding in the file would silently drop or add text.
        inner.no_truncation()
        inner.no_padding()
        inner.encode_special_tokens = True
        vocabulary = inner.get_vocab(with_added_tokens=True)
        end = _end_of_text(table, config or {})
        return cls(
            vocab_size=max(vocabulary.values(), default=-1) + 1,
            end_of_text=vocabulary[end] if end is not None else None,
            digest=hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest(),
            definition=definition,
            _inner=inner,
            _config=config or _plain_config(end),
            _lookup=Lookup.of(table),
            _leaks=_leaks(inner),
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """From a `tokenizer.json`, or a directory that has one."""
        file = Path(path).expanduser()
        file = file / _FILE if file.is_dir() else file
        try:
            definition = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DataError(f"{file}: no such file; a tokenizer is a tokenizer.json or a directory that has one") from None
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file}: cannot be read ({error})") from None
        return cls.parse(definition, _read_config(file.with_name(_CONFIG)), str(file))

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, which `load` and Hugging Face's AutoTokenizer read."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_text(self.definition, encoding="utf-8")
        (folder / _CONFIG).write_text(json.dumps(self._config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`, nothing added; `DataError` for text that this tokenizer cannot represent."""
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    def encode_batch(self, texts: Sequence[str], threads: bool = True) -> list[TokenArray]:
        """`encode` of every text, as arrays; with `threads` on all cores."""
        for text in texts:
            _check_unicode(text)
        if self._lookup is not None:
            return [self._lookup.encode(text) for text in texts]
        if self._leaks is not None and any(self._leaks.search(text) for text in texts):
            return [_array(self._around_leaks(text)) for text in texts]
        # The library's fast path keeps no offsets; one text per call keeps it to one thread.
        calls = [list(texts)] if threads else [[text] for text in texts]
        return [
            _array(encoded.ids) for call in calls for encoded in self._inner.encode_batch_fast(call, add_special_tokens=False)
        ]

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of tokens; special tokens are left out unless `special`; bytes that are no UTF-8 become U+FFFD."""
        return self._inner.decode(list(ids), skip_special_tokens=not special)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens, which are never made from text, and their numbers."""
        added = self._inner.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}

    @property
    def instant(self) -> bool:
        """Whether encoding is a table look-up, for which no parallelism pays."""
        return self._lookup is not None

    def token(self, number: int) -> str | None:
        """The library's own spelling of a token; None outside the vocabulary."""
        return self._inner.id_to_token(number)

    @property
    def byte_level(self) -> bool:
        """Whether tokens spell bytes (GPT-2's 256 letters), so that one token may be part of a character."""
        return (json.loads(self.definition).get("decoder") or {}).get("type") == "ByteLevel"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _around_leaks(self, text: str) -> list[int]:
        """Tokens of text with words that would become special tokens: each such word is encoded in two halves."""
        assert self._leaks is not None
        pieces, start = [], 0
        for match in self._leaks.finditer(text):
            middle = match.start() + 1
            pieces.append(text[start:middle])
            start = middle
        pieces.append(text[start:])
        return [number for piece in pieces for number in self._inner.encode(piece, add_special_tokens=False).ids]


def _array(ids: list[int]) -> TokenArray:
    return np.array(ids, dtype=np.uint32)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text has {text[error.start]!r}, half of a surrogate pair") from None


def _read_config(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file}: not valid JSON ({error})") from None
    if not isinstance(table, dict):
        raise DataError(f"{file}: should be a JSON object, got {type(table).__name__}")
    return table


def _plain_config(end: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return config if end is None else config | {"eos_token": end}


def _end_of_text(table: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """The separator of documents: a usual name, else the configuration's end-of-sequence token."""
    added = {token["content"] for token in table.get("added_tokens") or ()}
    eos = config.get("eos_token")
    named = eos.get("content") if isinstance(eos, dict) else eos
    return next((name for name in (*_END_NAMES, named) if name in added), None)


def _all_special(table: dict[str, Any], end: str | None) -> str:
    """The definition with its end-of-text token marked special, since some files add it as an ordinary word."""
    tokens = [token | {"special": token["special"] or token["content"] == end} for token in table.get("added_tokens") or ()]
    return json.dumps(table | {"added_tokens": tokens}, ensure_ascii=False)


def _leaks(inner: tokenizers.Tokenizer) -> re.Pattern[str] | None:
    """Special tokens that the model still makes from plain text, because its own vocabulary has them (Unigram does)."""
    added = inner.get_added_tokens_decoder()
    specials = {number: token.content for number, token in added.items() if token.special and len(token.content) > 1}
    leaking = [word for number, word in specials.items() if number in inner.encode(word, add_special_tokens=False).ids]
    return re.compile("|".join(re.escape(word) for word in sorted(leaking, key=len, reverse=True))) if leaking else None
