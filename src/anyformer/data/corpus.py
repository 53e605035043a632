"""`Corpus`: prepared text on disk, checked when it is opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyformer.data.columns import RecordTable, open_table
from anyformer.data.description import Data
from anyformer.data.reading import Skipped, documents
from anyformer.data.shards import FilesOnDisk, NumberFiles, Tokens, in_memory, token_dtype
from anyformer.data.splitting import SPLITS
from anyformer.describe import read_json
from anyformer.files import is_inside
from anyformer.text.beside import FOLDER
from anyformer.text.errors import DataError
from anyformer.text.specials import Specials
from anyformer.text.tokenizers import Tokenizer

FORMAT = 7
INDEX = "index.json"
BEGIN = '{\n "format": '
"""How the text of an index begins."""
_CLASSES = 8
"""Classes that a summary lists."""


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

    @property
    def words(self) -> str:
        """Its size in words."""
        return f"{len(self):,} tokens, {documents(len(self.starts))}"


ENDLESS = 2**31
"""The number of examples that stands for no end."""


@dataclass(frozen=True, eq=False)
class Endless:
    """A split whose examples are made as they are asked for; `count`: how many are read where all are asked for."""

    name: str
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def bytes(self) -> int:
        """Size of the text in UTF-8: there is none."""
        return 0

    @property
    def words(self) -> str:
        """Its size in words."""
        return "without end" + ("" if self.count == ENDLESS else f", of which {self.count:,} sequences are read")


@dataclass(frozen=True, eq=False)
class Mixed:
    """The splits of all parts of a mixture under one name."""

    name: str
    parts: Mapping[str, Split | RecordTable]

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    @property
    def bytes(self) -> int:
        """Size of the text in UTF-8."""
        return sum(part.bytes for part in self.parts.values())

    @property
    def words(self) -> str:
        """Its size in words."""
        return "; ".join(f"{name}: {part.words}" for name, part in self.parts.items())


@dataclass(frozen=True)
class PreparedFiles:
    """What a pipeline wrote into a folder: `splits`, the files of each split; `sources`, a fingerprint of each file read."""

    tokenizer: Tokenizer
    splits: Mapping[str, Any]
    sources: Mapping[str, str]
    skipped: Sequence[Skipped] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Text prepared for training. `digest` (SHA-256 of tokenizer and tokens) is equal on every machine for equal content.

    A split is running text, a table of records, or without end; of a mixture it is those of its parts. `sources`: every file
    read, with a fingerprint of its content; `names`: the classes of the data, by the column that numbers them; `parts`: the
    corpora that a mixture is made of, by name.
    """

    directory: Path
    tokenizer: Tokenizer
    train: Split | RecordTable | Mixed | Endless
    validation: Split | RecordTable | Mixed | Endless
    skipped: tuple[Skipped, ...]
    digest: str
    sources: Mapping[str, str]
    names: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, Corpus] = field(default_factory=dict)

    @property
    def components(self) -> Mapping[str, Corpus]:
        """The corpora by name as `Data.components` has them: itself, under an empty name, if it is no mixture."""
        return self.parts or {"": self}

    @classmethod
    def open(cls, directory: Path, verify: bool = False, files: NumberFiles | None = None) -> Self:
        """Map a prepared directory; `DataError` names a file that is missing, of the wrong size, or with `verify` changed.

        `files`: where the numbers are, if not in the directory, which then has the index and the tokenizer alone.
        """
        on_disk = FilesOnDisk(directory, verify)
        files = files or on_disk
        index = read_index(directory)
        tokenizer = Tokenizer.load(directory)
        found, wanted = tokenizer.beside.digests, index["beside"]
        if changed := [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]:
            raise DataError(f"{directory / FOLDER / changed[0]}: its content changed; delete {directory} to have it made again")
        names = {column: tuple(classes) for column, classes in index["names"].items()}
        train, validation = (_open_split(name, index["splits"][name], tokenizer, names, files) for name in SPLITS)
        on_disk.note()
        skipped = tuple(Skipped(**entry) for entry in index["skipped"])
        return cls(directory, tokenizer, train, validation, skipped, index["digest"], index["sources"], names)

    def summary(self) -> str:
        """A few lines for people: tokens, documents and bytes per split, and skipped files."""
        lines = [f"tokenizer: {self.tokenizer.vocab_size:,} tokens"]
        for name, part in self.components.items():
            for split in (part.train, part.validation):
                size = f", {split.bytes:,} bytes" if split.bytes else ""
                lines.append(f"{name}{' ' * bool(name)}{split.name}: {split.words}{size}")
        for column, classes in self.names.items():
            shown = ", ".join(classes[:_CLASSES]) + ", ..." * (len(classes) > _CLASSES)
            lines.append(f"{column}: {len(classes)} classes ({shown})")
        lines += [f"skipped: {item.path}: {item.reason}" for item in self.skipped]
        return "\n".join(lines)


def write_corpus(directory: Path, made: PreparedFiles, data: Mapping[str, Any], key: str, special: Specials) -> None:
    """Write the tokenizer, and `index.json` with a checksum of its own."""
    made.tokenizer.beside.keep(directory)
    names = {column: list(classes) for column, classes in made.names.items()}
    content = {"tokenizer": made.tokenizer.digest, "splits": made.splits, "names": names}
    index = {
        "format": FORMAT,
        "key": key,
        "digest": _checksum(content),
        "data": data,
        "special": special.plain(),
        **content,
        "beside": made.tokenizer.beside.digests,
        "skipped": [{"path": item.path, "reason": item.reason} for item in made.skipped],
        "sources": made.sources,
    }
    whole = {**index, "checksum": _checksum(index)}
    (directory / INDEX).write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_index(directory: Path) -> dict[str, Any]:
    """The index of a prepared directory; `DataError` if it is absent, damaged, or of another format."""
    path = directory / INDEX
    remedy = f"delete {directory} to have it made again"
    try:
        index = read_json(path)
        checksum = index.pop("checksum")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a directory that `prepare` made") from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); {remedy}") from None
    if checksum != _checksum(index):
        raise DataError(f"{path}: its content changed on disk; {remedy}")
    if index["format"] != FORMAT:
        raise DataError(f"{path}: has format {index['format']}, this version reads {FORMAT}; {remedy}")
    for name in (*number_files(index), *index["beside"]):
        if not is_inside(name):
            raise DataError(f"{path}: names the file {name!r}, which is not in its directory; {remedy}")
    return dict(index)


def number_files(index: Mapping[str, Any]) -> list[str]:
    """The files of numbers that an index names."""
    entries: list[Any] = []
    for split in index["splits"].values():
        if "columns" in split:
            entries += [column[part] for column in split["columns"].values() for part in ("numbers", "starts")]
        else:
            entries += [*split["shards"], split["starts"]]
    return [entry["file"] for entry in entries if entry is not None]


def _open_split(
    name: str,
    entry: Mapping[str, Any],
    tokenizer: Tokenizer,
    names: Mapping[str, tuple[str, ...]],
    files: NumberFiles,
) -> Split | RecordTable:
    if "columns" in entry:
        return open_table(name, entry, names, files)
    dtype = token_dtype(tokenizer.vocab_size)
    parts = [files.numbers(shard, dtype) for shard in entry["shards"]]
    return Split(name, Tokens(parts), files.starts(entry["starts"]), entry["bytes"])


def _checksum(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class MadeData(Data):
    """Examples that are made from a seed, and not read. The base of every such kind."""

    def corpus(self, cache: Path) -> Corpus:
        """Its splits and their tokenizer; nothing is written into `cache`."""
        raise NotImplementedError
