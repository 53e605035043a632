"""Records -> a corpus on disk: checked, split, tokenised, tokenised in stretches, joined into columns."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from anyformer.data.columns import TableRun, TableWriter
from anyformer.data.corpus import PreparedFiles
from anyformer.data.labels import ordered
from anyformer.data.progress import meter
from anyformer.data.reading import Skipped, check_same
from anyformer.data.records import Records
from anyformer.data.row import Bad, BadRecord
from anyformer.data.rows import find_records, rows
from anyformer.data.skips import Skips
from anyformer.data.sources import SourceFile, apart
from anyformer.data.splitting import SPLITS, SplitName, SplitRule, limit_of
from anyformer.data.stretches import WHOLE, Stretches, WorkShare
from anyformer.data.surveys import kept_tokenizer, learn_tokenizer
from anyformer.data.workers import encoded_in_order
from anyformer.text.errors import DataError
from anyformer.text.specials import Specials
from anyformer.text.tokenizers import TokenArray, Tokenizer

_GROUP, _GROUP_BYTES = 1024, 2**22
_FEWEST, _MOST = 16, 2**16
"""Records of a stretch."""
_MOST_BYTES = 2**27
"""Bytes of the numbers of a stretch at most, if its records have the average size."""
_plain = json.JSONEncoder(sort_keys=True).encode
Checked = Mapping[str, Any]
Item = tuple[int, SourceFile, SplitName, Checked]
"""A record with its stretch, its file and its split."""
Group = list[Item]
Made = tuple[int, SourceFile, SplitName, Mapping[str, ArrayLike], int]


@dataclass
class _Facts:
    """Facts of the records of some sources, from one pass."""

    bytes: int = 0
    held: int = 0
    """Bytes of the records as numbers, about."""
    keys: array[int] = field(default_factory=lambda: array("Q"))
    """`_key` of every record that can be used, in order: eight bytes each, so that the second pass hashes nothing."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    classes: dict[str, set[str]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def record_sources(data: Records) -> tuple[list[SourceFile], list[SourceFile]]:
    """The files to train on and the files of `validation_paths`."""
    return apart(data, find_records)


@dataclass(frozen=True)
class RecordSurvey:
    """Facts of records from one pass over their files, and the rule by which they are split."""

    data: Records
    sources: Sequence[SourceFile]
    held_out: Sequence[SourceFile]
    facts: _Facts
    apart: _Facts
    rule: SplitRule

    @classmethod
    def of(cls, data: Records, progress: bool) -> Self:
        """Read all files once, and refuse what cannot be used."""
        sources, held_out = record_sources(data)
        with meter("reading", sum(source.size for source in (*sources, *held_out)), progress) as advance:
            facts, apart = _surveyed(data, sources, advance), _surveyed(data, held_out, advance)
        if not facts.keys:
            raise DataError(f"paths = {list(data.paths)}: no record can be used; {_reasons(facts.skipped)}")
        none = bool(held_out) or data.validation == 0.0
        limit = 0 if none else limit_of(data.validation, min(facts.keys), max(facts.keys), str(sources[0].path))
        return cls(data, sources, held_out, facts, apart, SplitRule("documents", limit))

    @property
    def bytes(self) -> int:
        """Size of the texts of the records of `paths`, in UTF-8."""
        return self.facts.bytes

    def names(self, model: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
        """The classes by column, in order; `model`: the names in the configuration of the model that reads them."""
        found = (self.facts.classes, self.apart.classes)
        return {
            column: ordered(column, set().union(*(each.get(column, set()) for each in found)), self.data.order, model)
            for column in self.data.classes
        }

    def records(self) -> Iterator[tuple[SourceFile, SplitName, Checked]]:
        """Every record that can be used, with its file and its split. `DataError`, once a file was read, if it has changed."""
        read = _checked(self.data, self.sources, _leave_out, done=check_same)
        for (source, record), key in zip(read, self.facts.keys, strict=False):
            yield source, "validation" if key < self.rule.limit else "train", record
        for _ in read:
            """A file with more records than keys has changed, which is an error once it was read."""
        for source, record in _checked(self.data, self.held_out, _leave_out, done=check_same):
            yield source, "validation", record

    def training(self) -> Iterator[str]:
        """The texts that a tokenizer may learn from: none that is held out."""
        return (text for _, split, record in self.records() if split == "train" for text in self.data.texts(record))

    def everything(self) -> Iterator[str]:
        """All texts."""
        return (text for *_, record in self.records() for text in self.data.texts(record))


@dataclass(frozen=True)
class RecordWork:
    """Records on their way to numbers: facts of their files, and what is kept in `folder`: their tokenizer, and stretches."""

    folder: Path
    survey: RecordSurvey
    tokenizer: Tokenizer

    @classmethod
    def begun(cls, folder: Path, data: Records, special: Specials, progress: bool, share: WorkShare = WHOLE) -> Self:
        """The work on `data`, begun or continued in `folder`: its files are read once, and its tokenizer is made."""
        folder.mkdir(exist_ok=True)
        survey, wanted = RecordSurvey.of(data, progress), special | data.special
        tokenizer = kept_tokenizer(folder, lambda: learn_tokenizer(data.tokenizer, [(survey, 1.0)], wanted, progress))
        return cls(folder, survey, tokenizer)

    @property
    def stretches(self) -> Stretches:
        """The stretches of all records."""
        facts = (self.survey.facts, self.survey.apart)
        count = sum(len(each.keys) for each in facts)
        fitting = _MOST_BYTES * count // max(1, sum(each.held for each in facts))
        return Stretches(self.folder / "stretches", count, _FEWEST, min(max(1, fitting), _MOST))

    def tokenise(self, share: WorkShare, workers: int, progress: bool) -> None:
        """Make the stretches of a share that are missing; every record is read, and those of others are passed over."""
        stretches, data, tokenizer = self.stretches, self.survey.data, self.tokenizer
        missing = stretches.missing(share.of(stretches.count))
        size = (self.survey.facts.bytes + self.survey.apart.bytes) * len(missing) // stretches.count

        def texts(group: Group) -> list[str]:
            return [text for *_, record in group for text in data.pieces(record, tokenizer)]

        numbered = ((stretches.number(place), *item) for place, item in enumerate(self.survey.records()))
        groups = _groups((item for item in numbered if item[0] in missing), lambda record: _held(data, record))
        encoded = encoded_in_order(tokenizer, self.folder / "tokenizer", groups if missing else (), texts, size, workers)
        # Closed at once on any error, since it may own processes.
        with meter("tokenising", size, progress) as advance, closing(encoded):
            for number, items in groupby(self._numbers(encoded), lambda item: item[0]):
                advance(self._make(number, items))

    def joined(self, folder: Path) -> PreparedFiles:
        """Write the numbers of all stretches, in order, into an empty folder."""
        survey, names = self.survey, self._names
        writers = {name: TableWriter(folder, name, survey.data.types(names)) for name in SPLITS}
        for number in range(self.stretches.count):
            arrays = self.stretches.read(number)
            for name, writer in writers.items():
                writer.add(TableRun.read(name, arrays))
        splits: dict[str, Any] = {name: writer.close() for name, writer in writers.items()}
        prints = survey.facts.fingerprints | survey.apart.fingerprints
        return PreparedFiles(self.tokenizer, splits, prints, (*survey.facts.skipped, *survey.apart.skipped), names)

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        return self.survey.names(self.tokenizer.conventions.labels)

    def _numbers(self, encoded: Iterable[tuple[Group, list[TokenArray]]]) -> Iterator[Made]:
        """The numbers of every record, with its stretch, its file, its split and the bytes of its texts."""
        data, tokenizer = self.survey.data, self.tokenizer
        for group, found in encoded:
            arrays = iter(found)
            for number, source, split, record in group:
                tokens = [next(arrays) for _ in range(len(data.pieces(record, tokenizer)))]
                yield number, source, split, data.numbers(record, tokens, tokenizer, self._names), _size(data, record)

    def _make(self, number: int, items: Iterable[Made]) -> int:
        """Keep a stretch, unless its last file has changed meanwhile, as the others had not; gives the bytes of its texts."""
        made: dict[SplitName, list[Mapping[str, ArrayLike]]] = {name: [] for name in SPLITS}
        sizes = dict.fromkeys(SPLITS, 0)
        kept = list(items)
        for _, _, split, record, size in kept:
            made[split].append(record)
            sizes[split] += size
        check_same(kept[-1][1])
        types = self.survey.data.types(self._names)
        runs = {name: TableRun.of(types, made[name], sizes[name]) for name in SPLITS}
        self.stretches.write(number, {key: array for name, run in runs.items() for key, array in run.arrays(name).items()})
        return sum(sizes.values())


def _surveyed(data: Records, sources: Sequence[SourceFile], advance: Callable[[int], None]) -> _Facts:
    facts, skips = _Facts(classes={column: set() for column in data.classes}), Skips(data.skip_bad)
    counts: dict[str, int] = {}
    digests: dict[str, int] = {}
    for source, record in _checked(data, sources, skips.add, advance):
        path, key = str(source.path), _key(record)
        facts.keys.append(key)
        facts.bytes += _size(data, record)
        facts.held += _held(data, record)
        counts[path] = counts.get(path, 0) + 1
        digests[path] = digests.get(path, 0) ^ key
        for column, classes in data.named(record).items():
            facts.classes[column].update(classes)
    skips.finish(len(facts.keys) + skips.count)
    facts.fingerprints = {path: f"{count}-{digests[path]:016x}" for path, count in counts.items()}
    facts.skipped = [Skipped(", ".join(data.paths), reason) for reason in skips.report()]
    return facts


def _checked(
    data: Records,
    sources: Sequence[SourceFile],
    bad: Bad,
    advance: Callable[[int], None] = lambda count: None,
    done: Callable[[SourceFile], None] = lambda source: None,
) -> Iterator[tuple[SourceFile, Checked]]:
    """Every record that can be used, with its file; the others are given to `bad`, and to `done` each file that was read."""
    for source in sources:
        for row in rows(source, advance, bad):
            try:
                record = data.record(row)
            except BadRecord as error:
                bad(error)
                continue
            yield source, record
        done(source)


def _reasons(skipped: Sequence[Skipped]) -> str:
    return "; ".join(item.reason for item in skipped[:3]) or "the files hold none"


def _leave_out(error: BadRecord) -> None:
    """A record that was counted in the first pass."""


def _size(data: Records, record: Checked) -> int:
    """Bytes of a record's texts in UTF-8."""
    return sum(len(text.encode()) for text in data.texts(record))


def _held(data: Records, record: Checked) -> int:
    """Bytes of a record as numbers, about: a number of four bytes per byte of its texts, and its arrays."""
    return 4 * _size(data, record) + sum(value.nbytes for value in record.values() if isinstance(value, np.ndarray))


def _key(record: Checked) -> int:
    """64 bits that decide the split of a record: a hash of its content, so that adding records moves none."""
    digest = hashlib.sha256()
    for name in sorted(record):
        value = record[name]
        plain = value.tobytes() if isinstance(value, np.ndarray) else _plain(value).encode()
        digest.update(name.encode() + b"\0" + plain + b"\0")
    return int.from_bytes(digest.digest()[:8], "big")


def _groups(records: Iterable[Item], size: Callable[[Checked], int]) -> Iterator[Group]:
    """Records in lists of about four million bytes."""
    group: Group = []
    held = 0
    for item in records:
        group.append(item)
        held += size(item[-1])
        if held >= _GROUP_BYTES or len(group) == _GROUP:
            yield group
            group, held = [], 0
    if group:
        yield group
