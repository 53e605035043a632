"""What one pass over the files of a text tells: their sizes, what is left out, and the rule by which the text is split."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from anyformer.data.description import Text
from anyformer.data.progress import meter
from anyformer.data.reading import Skipped, SourceFacts, check, documents
from anyformer.data.sources import SourceFile, apart, find_sources
from anyformer.data.splitting import SplitRule, assign, decide
from anyformer.data.stretches import WHOLE, WorkShare
from anyformer.data.vocabulary import TRAINING_PIECE
from anyformer.files import write_text
from anyformer.text.errors import DataError

_BYTES, _FILES = 2**26, 4096
"""Facts are kept of so many bytes, or of so many files, at a time."""
Checked = SourceFacts | Skipped


@dataclass(frozen=True)
class TextSurvey:
    """Facts of a text's files from one pass, and the rule by which it is split."""

    data: Text
    facts: Sequence[SourceFacts]
    held_out: Sequence[SourceFacts]
    skipped: Sequence[Skipped]
    rule: SplitRule

    @classmethod
    def of(cls, data: Text, progress: bool, kept: Path | None = None, share: WorkShare = WHOLE) -> Self:
        """Read all files once, and refuse what cannot be used.

        `kept`: a directory in which facts are kept, so that no file is read that another process read before; this one begins
        with the files of its `share`.
        """
        sources, held_out = text_sources(data)
        every = [*sources, *held_out]
        with meter("reading", sum(source.size for source in every), progress) as advance:
            found = _surveyed(every, data.field, advance, kept, share)
        facts, skipped = _sorted(found[: len(sources)])
        facts_held_out, more = _sorted(found[len(sources) :])
        return cls(data, facts, facts_held_out, (*skipped, *more), decide(data, facts))

    @property
    def every(self) -> Sequence[SourceFacts]:
        """The facts of all files, in the order in which they are read."""
        return (*self.facts, *self.held_out)

    @property
    def bytes(self) -> int:
        """Size of the text of `paths`, in UTF-8."""
        return sum(fact.bytes for fact in self.facts)

    def training(self) -> Iterator[str]:
        """The text that a tokenizer may learn from: none that is held out."""
        pieces = assign(self.data, self.rule, self.facts, (), TRAINING_PIECE)
        return (each.piece.text for each in pieces if each.split == "train")

    def everything(self) -> Iterator[str]:
        """The whole text."""
        return (each.piece.text for each in assign(self.data, self.rule, self.facts, self.held_out))


def text_sources(data: Text) -> tuple[list[SourceFile], list[SourceFile]]:
    """The files to train on and the files of `validation_paths`."""
    return apart(data, find_sources)


def _surveyed(
    sources: Sequence[SourceFile], field: str, advance: Callable[[int], None], kept: Path | None, share: WorkShare
) -> list[Checked]:
    """What is found of each file, in order."""
    batches = list(_batches(sources))
    first = share.of(len(batches)).start
    found: dict[int, list[Checked]] = {}
    for number in (*range(first, len(batches)), *range(first)):
        path = None if kept is None else kept / f"{number:05d}.json"
        if path is not None and path.exists():
            found[number] = [_fact(source, item) for source, item in zip(batches[number], _read(path), strict=True)]
            advance(sum(source.size for source in batches[number]))
            continue
        found[number] = [check(source, field, advance) for source in batches[number]]
        if path is not None:
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps([_plain(item) for item in found[number]]))
    return [item for number in range(len(batches)) for item in found[number]]


def _batches(sources: Sequence[SourceFile]) -> Iterator[Sequence[SourceFile]]:
    batch: list[SourceFile] = []
    size = 0
    for source in sources:
        batch.append(source)
        size += source.size
        if size >= _BYTES or len(batch) >= _FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _plain(found: Checked) -> dict[str, Any]:
    if isinstance(found, Skipped):
        return asdict(found)
    return {each.name: getattr(found, each.name) for each in fields(found) if each.name != "source"}


def _fact(source: SourceFile, plain: dict[str, Any]) -> Checked:
    return Skipped(**plain) if "reason" in plain else SourceFacts(source, **plain)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except ValueError as error:
        raise DataError(f"{path}: damaged ({error}); delete it, and run again to have it made") from None


def _sorted(found: Sequence[Checked]) -> tuple[list[SourceFacts], list[Skipped]]:
    """The files with text, and what is left out."""
    facts: list[SourceFacts] = []
    skipped: list[Skipped] = []
    for item in found:
        if isinstance(item, Skipped):
            skipped.append(item)
            continue
        facts.append(item)
        if item.empty:
            verb = "is" if item.empty == 1 else "are"
            skipped.append(Skipped(str(item.source.path), f"{documents(item.empty)} {verb} empty"))
    if found and not facts:
        reasons = "; ".join(f"{item.path}: {item.reason}" for item in skipped[:5])
        raise DataError(f"no file has text ({reasons}); name files of UTF-8 text")
    return facts, skipped
