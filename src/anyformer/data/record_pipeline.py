"""Records -> a corpus on disk: checked, split, tokenised, written as columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anyformer.data.columns import TableWriter
from anyformer.data.corpus import Made
from anyformer.data.errors import DataError
from anyformer.data.progress import meter
from anyformer.data.reading import Skipped
from anyformer.data.records import Records
from anyformer.data.row import Bad, BadRecord
from anyformer.data.rows import find_records, rows
from anyformer.data.skips import Skips
from anyformer.data.sources import Source, current, without
from anyformer.data.specials import Specials
from anyformer.data.splitting import SPLITS, Rule, SplitName, limit_of
from anyformer.data.text_pipeline import LEARN_IN_PROCESS_FROM
from anyformer.data.tokenizer_specs import learnt
from anyformer.data.vocabulary import make_tokenizer, sample

_GROUP = 1024
Checked = Mapping[str, Any]


@dataclass
class _Survey:
    """Facts of the records of some sources, from one pass."""

    records: int = 0
    bytes: int = 0
    low: int = 2**64
    high: int = 0
    fingerprints: dict[str, str] = field(default_factory=dict)
    classes: dict[str, set[str]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def record_sources(data: Records) -> tuple[list[Source], list[Source]]:
    """The files to train on and the files of `validation_paths`."""
    held_out = find_records(data.validation_paths, data.glob)
    sources = without(find_records(data.paths, data.glob), held_out)
    if not sources:
        raise DataError(f"paths = {list(data.paths)}: every file is also in validation_paths; nothing is left to train on")
    return sources, held_out


def make_records(folder: Path, data: Records, special: Specials, workers: int, progress: bool) -> Made:
    """Write the numbers of the data's records into an empty folder."""
    sources, held_out = record_sources(data)
    with meter("reading", sum(source.size for source in (*sources, *held_out)), progress) as advance:
        survey, apart = _surveyed(data, sources, advance), _surveyed(data, held_out, advance)
    if not survey.records:
        raise DataError(f"paths = {list(data.paths)}: no record can be used; {_reasons(survey.skipped)}")
    apart_only = bool(held_out) or data.validation == 0.0
    rule = Rule("documents", 0 if apart_only else limit_of(data.validation, survey.low, survey.high, str(sources[0].path)))
    names = {
        column: tuple(sorted(survey.classes.get(column, set()) | apart.classes.get(column, set()))) for column in data.classes
    }

    def records() -> Iterator[tuple[SplitName, Checked]]:
        for _, record, key in _checked(data, sources, _leave_out):
            yield "validation" if key < rule.limit else "train", record
        for _, record, _ in _checked(data, held_out, _leave_out):
            yield "validation", record

    def training() -> Iterator[str]:
        spec = learnt(data.tokenizer)
        share = 1.0 if spec is None else spec.sample_bytes / max(1, survey.bytes)
        with meter("learning tokens", int(survey.bytes * min(1.0, share)), progress) as advance:
            for text in sample((text for split, record in records() if split == "train" for text in data.texts(record)), share):
                advance(len(text.encode()))
                yield text

    def everything() -> Iterator[str]:
        return (text for _, record in records() for text in data.texts(record))

    wanted = special | data.special
    tokenizer = make_tokenizer(data.tokenizer, training, everything, wanted, in_process=survey.bytes >= LEARN_IN_PROCESS_FROM)
    writers = {name: TableWriter(folder, name, data.types(names)) for name in SPLITS}
    with meter("tokenising", survey.bytes + apart.bytes, progress) as advance:
        for group in _groups(records()):
            texts = [data.pieces(record, tokenizer) for _, record in group]
            arrays = iter(tokenizer.encode_batch([text for own in texts for text in own], threads=workers > 1))
            for (split, record), own in zip(group, texts, strict=True):
                size = sum(len(text.encode()) for text in data.texts(record))
                writers[split].add(data.numbers(record, [next(arrays) for _ in own], tokenizer, names), size)
                advance(size)
    for source in (*sources, *held_out):
        if current(source).identity() != source.identity():
            raise DataError(f"{source.path}: the file changed while it was being read; run again when nothing writes to it")
    splits: dict[str, Any] = {name: writer.close() for name, writer in writers.items()}
    prints = survey.fingerprints | apart.fingerprints
    return Made(tokenizer, splits, prints, (*survey.skipped, *apart.skipped), names)


def _surveyed(data: Records, sources: Sequence[Source], advance: Callable[[int], None]) -> _Survey:
    survey, skips = _Survey(classes={column: set() for column in data.classes}), Skips(data.skip_bad)
    counts: dict[str, int] = {}
    digests: dict[str, int] = {}
    for path, record, key in _checked(data, sources, skips.add, advance):
        survey.records += 1
        survey.bytes += sum(len(text.encode()) for text in data.texts(record))
        survey.low, survey.high = min(survey.low, key), max(survey.high, key)
        counts[path] = counts.get(path, 0) + 1
        digests[path] = digests.get(path, 0) ^ key
        for column, classes in data.labels(record).items():
            survey.classes[column].update(classes)
    skips.finish(survey.records + skips.count)
    survey.fingerprints = {path: f"{count}-{digests[path]:016x}" for path, count in counts.items()}
    survey.skipped = [Skipped(", ".join(data.paths), reason) for reason in skips.report()]
    return survey


def _checked(
    data: Records, sources: Sequence[Source], bad: Bad, advance: Callable[[int], None] = lambda count: None
) -> Iterator[tuple[str, Checked, int]]:
    """(path, record, key) of every record that can be used; the others are given to `bad`."""
    for source in sources:
        for row in rows(source, advance, bad):
            try:
                record = data.record(row)
            except BadRecord as error:
                bad(error)
                continue
            yield str(source.path), record, _key(record)


def _reasons(skipped: Sequence[Skipped]) -> str:
    return "; ".join(item.reason for item in skipped[:3]) or "the files hold none"


def _leave_out(error: BadRecord) -> None:
    """A record that was counted in the first pass."""


def _key(record: Checked) -> int:
    """64 bits that decide the split of a record: a hash of its content, so that adding records moves none."""
    digest = hashlib.sha256()
    for name in sorted(record):
        value = record[name]
        plain = value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value, sort_keys=True).encode()
        digest.update(name.encode() + b"\0" + plain + b"\0")
    return int.from_bytes(digest.digest()[:8], "big")


def _groups(records: Iterator[tuple[SplitName, Checked]]) -> Iterator[list[tuple[SplitName, Checked]]]:
    group: list[tuple[SplitName, Checked]] = []
    for item in records:
        group.append(item)
        if len(group) == _GROUP:
            yield group
            group = []
    if group:
        yield group
