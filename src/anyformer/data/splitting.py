"""Which text is held out: a rule decided from facts of the files, then a stream of (split, piece) that follows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from anyformer.data.description import Text
from anyformer.data.reading import PIECE, SourceFacts, TextPiece, read
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


def assign(
    data: Text, rule: SplitRule, facts: Sequence[SourceFacts], held_out: Sequence[SourceFacts], size: int = PIECE
) -> Iterator[tuple[SplitName, TextPiece]]:
    """Every piece of the text in order, with the split it belongs to; `held_out` are the files of `validation_paths`."""
    seen = 0
    for fact in facts:
        for piece in read(fact, data.field, size):
            if rule.kind == "documents":
                yield "validation" if piece.key < rule.limit else "train", piece
                continue
            before = max(0, min(rule.limit - seen, len(piece.text)))
            seen += len(piece.text)
            if before == len(piece.text):
                yield "train", piece
            elif before == 0:
                yield "validation", piece
            else:
                yield "train", replace(piece, text=piece.text[:before], ends=False)
                yield "validation", replace(piece, text=piece.text[before:])
    for fact in held_out:
        for piece in read(fact, data.field, size):
            yield "validation", piece
