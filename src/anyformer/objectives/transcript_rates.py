"""Word and character error rates of an objective's transcripts, as sums over examples, and beside a constant answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from anyformer.objectives.feed import Feed, RecordFeed
from anyformer.objectives.objective import Totals
from anyformer.text.edits import EditCounts

_MOST = 100_000
"""Transcripts of which the commonest is found."""


def edit_sums(said: Sequence[str], real: Sequence[str]) -> dict[str, Tensor]:
    """Sums for `error_rates`, over pairs of a transcript and the true text."""
    total = _added(EditCounts.of(one, other) for one, other in zip(said, real, strict=True))
    numbers = {
        "word_edits": total.word_edits, "words": total.words, "character_edits": total.character_edits,
        "characters": total.characters,
    }  # fmt: skip
    return {name: torch.tensor(number, dtype=torch.float64) for name, number in numbers.items()}


def error_rates(totals: Totals) -> dict[str, float]:
    """Edits per true word and per true character; nothing where no transcripts were made."""
    if "words" not in totals:
        return {}
    return {
        "word_error_rate": float(totals["word_edits"] / totals["words"].clamp(min=1)),
        "character_error_rate": float(totals["character_edits"] / totals["characters"].clamp(min=1)),
    }


def constant_answer(training: Feed, held_out: Feed) -> str:
    """In words: the commonest transcript of the training records, and the word error rate of always giving it."""
    counts = Counter(_texts(training))
    common, _ = min(counts.items(), key=lambda item: (-item[1], item[0]))
    total = _added(EditCounts.of(common, real) for real in _texts(held_out))
    return f"always {common!r}: word error rate {total.word_error_rate:.3f}"


def _texts(feed: Feed) -> list[str]:
    assert isinstance(feed, RecordFeed), "an objective on records makes such feeds"
    assert feed.tokenizer is not None, "its records have texts"
    column = feed.table.columns["text"]
    return [feed.tokenizer.decode(column[row].tolist()).strip() for row in range(min(len(column), _MOST))]


def _added(counts: Iterable[EditCounts]) -> EditCounts:
    total = EditCounts()
    for each in counts:
        total += each
    return total
