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

from anyformer.text.errors import DataError
from anyformer.text.leaks import Leaks
from anyformer.text.lookup import Lookup
from anyformer.text.specials import END_OF_TEXT, ROLES, SENTINEL_NAMES, RoleName, by_role, candidates, named, plain_config

TokenArray = NDArray[np.uint32]
_END_NAMES = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>", "<|eos|>", "[EOS]", "[SEP]")
_FILE, _TEMPLATE = "tokenizer.json", "chat_template.jinja"
CONFIG = "tokenizer_config.json"
"""The file with the tokens of special meaning and the chat template."""


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
    """The text of `tokenizer.json`, kept as given so that saving changes no digest."""
    _inner: tokenizers.Tokenizer = field(repr=False)
    _config: Mapping[str, Any] = field(repr=False)
    _lookup: Lookup | None = field(repr=False)
    _leaks: Leaks | None = field(repr=False)
    _where: str = field(repr=False)

    @classmethod
    def parse(cls, definition: str, config: Mapping[str, Any] | None = None, where: str = _FILE) -> Self:
        """From the text of a `tokenizer.json` (and the table of its `tokenizer_config.json`)."""
        try:
            table = json.loads(definition)
            inner = tokenizers.Tokenizer.from_str(all_special(table, config or {}))
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
            definition=definition,
            _inner=inner,
            _config=config or plain_config(end),
            _lookup=Lookup.of(table),
            _leaks=Leaks.of(inner, _unknown(table["model"])),
            _where=where,
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
        return cls.parse(definition, _read_template(file) | _read_config(file.with_name(CONFIG)), str(file))

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, which `load` and Hugging Face's AutoTokenizer read."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_text(self.definition, encoding="utf-8")
        (folder / CONFIG).write_text(json.dumps(self._config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

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

    def offsets(self, text: str) -> NDArray[np.int64]:
        """(tokens, 2): the characters of `text` that each token of `encode(text)` stands for, from the first to behind the
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

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of tokens; special tokens are left out unless `special`; bytes that are no UTF-8 become U+FFFD."""
        return self._inner.decode(list(ids), skip_special_tokens=not special)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens, which are never made from text, and their numbers."""
        added = self._inner.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}

    @property
    def end(self) -> int:
        """The token that ends a text; `DataError` if there is none."""
        if self.end_of_text is None:
            raise self._lacks("token that ends a text", f"none of {', '.join(_END_NAMES)}")
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
    def chat_template(self) -> str | None:
        """The program in Jinja that writes a chat as text; of several the one called `default`."""
        found = self._config.get("chat_template")
        if isinstance(found, list):
            found = next((each.get("template") for each in found if each.get("name") == "default"), None)
        return found if isinstance(found, str) else None

    @cached_property
    def strips(self) -> Mapping[str, tuple[bool, bool]]:
        """Whether each special token takes the white space before it, and after it."""
        added = self._inner.get_added_tokens_decoder().values()
        return {token.content: (token.lstrip, token.rstrip) for token in added if token.special}

    @property
    def instant(self) -> bool:
        """Whether encoding is a table look-up, for which no parallelism pays."""
        return self._lookup is not None

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


def _read_template(file: Path) -> dict[str, Any]:
    """The chat template of a file beside the tokenizer's, where newer directories keep it."""
    beside = file.with_name(_TEMPLATE)
    if not beside.is_file():
        return {}
    try:
        return {"chat_template": beside.read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{beside}: cannot be read ({error})") from None


def _end_of_text(table: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """The separator of documents: a usual name, else the configuration's end-of-sequence token."""
    added = {token["content"] for token in table.get("added_tokens") or ()}
    return next((name for name in (*_END_NAMES, named(config, "eos_token")) if name in added), None)


def all_special(table: dict[str, Any], config: Mapping[str, Any]) -> str:
    """The definition with its end-of-text token, and those of every role, marked special, since some files add them as
    ordinary words, or name in the configuration what only the model's vocabulary has."""
    tokens = list(table.get("added_tokens") or ())
    added, vocabulary = {token["content"] for token in tokens}, _vocabulary(table["model"])
    for word in dict.fromkeys(named(config, role.key) for role in ROLES.values() if role.key):
        if word is not None and word not in added and word in vocabulary:
            plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            tokens.append({"id": vocabulary[word], "content": word, **plain})
    known = {_end_of_text(table, config), *by_role(config, added).values()}
    tokens = [token | {"special": token["special"] or token["content"] in known} for token in tokens]
    return json.dumps(table | {"added_tokens": tokens}, ensure_ascii=False)


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    """A model's words and their numbers; Unigram lists (piece, score)."""
    words = model["vocab"]
    return words if isinstance(words, dict) else {word: number for number, (word, _) in enumerate(words)}


def _unknown(model: Mapping[str, Any]) -> int | None:
    """The number that a model gives for what it lacks."""
    unknown: int | None = model.get("unk_id", _vocabulary(model).get(model.get("unk_token") or ""))
    return unknown
