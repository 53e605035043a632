"""Which text is held out: a rule decided from facts of the files, then a stream of pieces that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from anyformer.data.description import Text
from anyformer.data.reading import PIECE, SourceFacts, TextPiece, read
from anyformer.data.sources import SourceFile
from anyformer.text.errors import DataError

SplitName = Literal["train", "validation"]
SPLITS: tuple[SplitName, ...] = ("train", "validation")


@dataclass(frozen=True)
class SplitRule:
    """`documents`: a key below `limit` is held out. `tail`: the characters from `limit` on are. `separate`: whether an
    end-of-text token follows each document."""

    kind: Literal["documents", "tail"]
    limit: int
    separate: bool = True


def decide(data: Text, facts: Sequence[SourceFacts]) -> SplitRule:
    """The rule by which the text of `data.paths` is split."""
    documents = sum(fact.documents for fact in facts)
    if data.validation_paths or data.validation == 0.0:
        return SplitRule("documents", limit=0)
    low, high = min(fact.low for fact in facts), max(fact.high for fact in facts)
    # With fewer documents than 1/fraction usually none would be held out; equal documents have equal keys.
    enough = documents * data.validation >= 1 and low < high
    if data.split == "tail" or (data.split is None and not enough):
        characters = sum(fact.characters for fact in facts)
        return SplitRule("tail", limit=int(characters * (1 - data.validation)), separate=documents > 1)
    return SplitRule("documents", limit_of(data.validation, low, high, str(facts[0].source.path)))


def limit_of(share: float, low: int, high: int, where: str) -> int:
    """The limit below which keys are held out: a share of all keys, and so that neither split is empty."""
    if low == high:
        raise DataError(
            f"{where}: two different documents or records are needed to hold some out, and this data has one; "
            "give validation_paths, or of a single text use split = 'tail'"
        )
    return min(max(int(share * 2**64), low + 1), high)


@dataclass(frozen=True)
class AssignedPiece:
    """A piece of a file's text and its split; `at`: the characters of all files before it; `begins`: whether a document of the
    split begins with it."""

    source: SourceFile
    split: SplitName
    piece: TextPiece
    at: int
    begins: bool


def assign(
    data: Text,
    rule: SplitRule,
    facts: Sequence[SourceFacts],
    held_out: Sequence[SourceFacts],
    size: int = PIECE,
    wanted: Callable[[int, int], bool] = lambda start, stop: True,
) -> Iterator[AssignedPiece]:
    """Every piece of the text in order, with the split it belongs to; `held_out` are the files of `validation_paths`.

    `wanted`: whether any of the characters `start` to `stop`, exclusive, is asked for. Others are left out, and a file of
    which none is asked for is not read.
    """
    at = 0
    for number, fact in enumerate((*facts, *held_out)):
        if wanted(at, at + fact.characters):
            held = number >= len(facts)
            for each in _assigned(fact.source, read(fact, data.field, size), at, rule, held):
                if wanted(each.at, each.at + 1):
                    yield each
        at += fact.characters


def _assigned(source: SourceFile, pieces: Iterable[TextPiece], at: int, rule: SplitRule, held: bool) -> Iterator[AssignedPiece]:
    """The pieces of one file, which begins at a character of the whole text; `held`: whether all of it is held out."""
    inside = dict.fromkeys(SPLITS, False)
    for piece in pieces:
        for split, part in _divided(piece, at, rule, held):
            yield AssignedPiece(source, split, part, at, begins=not inside[split])
            inside[split] = not part.ends
        at += len(piece.text)


def _divided(piece: TextPiece, at: int, rule: SplitRule, held: bool) -> list[tuple[SplitName, TextPiece]]:
    """A piece with its split; one in which the tail begins is cut there."""
    if held or rule.kind == "documents":
        return [("validation" if held or piece.key < rule.limit else "train", piece)]
    before = max(0, min(rule.limit - at, len(piece.text)))
    if before == len(piece.text):
        return [("train", piece)]
    tail: tuple[SplitName, TextPiece] = ("validation", replace(piece, text=piece.text[before:]))
    return [("train", replace(piece, text=piece.text[:before], ends=False)), tail] if before else [tail]
