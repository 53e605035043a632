"""`Corpus`: prepared text on disk, checked when it is opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyformer.data.errors import DataError
from anyformer.data.reading import Skipped, documents
from anyformer.data.shards import Tokens, in_memory, open_numbers
from anyformer.data.splitting import SPLITS
from anyformer.data.tokenizers import Tokenizer

FORMAT = 2
INDEX = "index.json"


@dataclass(frozen=True, eq=False)
class Split:
    """The tokens of one split; `starts` (documents,) are the places of the documents' first tokens, ascending; `bytes` is the
    text's size in UTF-8, so that bits per byte = nats per token * tokens / (bytes * ln 2)."""

    name: str
    tokens: Tokens
    starts: NDArray[np.int64]
    bytes: int

    @classmethod
    def of(cls, tokens: ArrayLike, starts: Sequence[int] = (0,), bytes: int = 0, name: str = "split") -> Self:
        """A split of tokens in memory."""
        return cls(name, in_memory(tokens), np.array(starts, dtype=np.int64), bytes)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Text prepared for training. `digest` (SHA-256 of tokenizer and tokens) is equal on every machine for equal content.

    `sources`: every file read, with a fingerprint of its text.
    """

    directory: Path
    tokenizer: Tokenizer
    train: Split
    validation: Split
    skipped: tuple[Skipped, ...]
    digest: str
    sources: Mapping[str, str]

    @classmethod
    def open(cls, directory: Path, verify: bool = False) -> Self:
        """Map a prepared directory; `DataError` names a file that is missing, of the wrong size, or with `verify` changed."""
        index = read_index(directory)
        tokenizer = Tokenizer.load(directory)
        if tokenizer.digest != index["tokenizer"]:
            raise DataError(f"{directory / 'tokenizer.json'}: its content changed; delete {directory} to have it made again")
        dtype = np.dtype(index["dtype"])
        train, validation = (_open_split(directory, name, index["splits"][name], dtype, verify) for name in SPLITS)
        skipped = tuple(Skipped(**entry) for entry in index["skipped"])
        return cls(directory, tokenizer, train, validation, skipped, index["digest"], index["sources"])

    def opening(self, number: int = 0, words: int = 4) -> str:
        """The first words of held-out document `number` (modulo their count), as a prompt.

        A single held-out document may begin in the middle of a line: then the first words of a later line.
        """
        starts = self.validation.starts.tolist()
        start = starts[number % len(starts)]
        tokens = self.validation.tokens[start : start + 512].tolist()
        if self.tokenizer.end_of_text in tokens:
            tokens = tokens[: tokens.index(self.tokenizer.end_of_text)]
        lines = [line.strip() for line in self.tokenizer.decode(tokens).strip("\ufffd").splitlines() if line.strip()]
        whole = lines if len(starts) > 1 else lines[1 + number : -1] or lines
        return " ".join(whole[0].split()[:words]) if whole else ""

    def summary(self) -> str:
        """A few lines for people: tokens, documents and bytes of each split, and skipped files."""
        lines = [f"tokenizer: {self.tokenizer.vocab_size:,} tokens"]
        for split in (self.train, self.validation):
            lines.append(f"{split.name}: {len(split):,} tokens, {documents(len(split.starts))}, {split.bytes:,} bytes")
        lines += [f"skipped: {item.path}: {item.reason}" for item in self.skipped]
        return "\n".join(lines)


def write_index(directory: Path, index: Mapping[str, Any]) -> None:
    """Write `index.json` with a checksum of its own."""
    whole = {**index, "checksum": _checksum(index)}
    (directory / INDEX).write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_index(directory: Path) -> dict[str, Any]:
    """The index of a prepared directory; `DataError` if it is absent, damaged, or of another format."""
    path = directory / INDEX
    remedy = f"delete {directory} to have it made again"
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        checksum = index.pop("checksum")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a directory that `prepare` made") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); {remedy}") from None
    if checksum != _checksum(index):
        raise DataError(f"{path}: its content changed on disk; {remedy}")
    if index["format"] != FORMAT:
        raise DataError(f"{path}: has format {index['format']}, this version reads {FORMAT}; {remedy}")
    return dict(index)


def content_digest(tokenizer: str, dtype: str, splits: Mapping[str, Any]) -> str:
    """SHA-256 of the tokens and their meaning: the tokenizer's digest and the hashes of all files."""
    return _checksum({"tokenizer": tokenizer, "dtype": dtype, "splits": splits})


def _open_split(directory: Path, name: str, entry: dict[str, Any], dtype: np.dtype[Any], verify: bool) -> Split:
    parts = [open_numbers(directory, shard, dtype, verify) for shard in entry["shards"]]
    starts = open_numbers(directory, entry["starts"], np.dtype("<i8"), verify)
    return Split(name, Tokens(parts), starts, entry["bytes"])


def _checksum(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
