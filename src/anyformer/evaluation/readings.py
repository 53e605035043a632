"""How running text is read to tell its likelihood: windows side by side, or each document on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from anyformer.data import IGNORED, Split
from anyformer.data.columns import padded
from anyformer.evaluation.likelihood import prefix_of
from anyformer.objectives import Examples
from anyformer.objectives.feed import TextFeed
from anyformer.text import Tokenizer

Ints = NDArray[np.int64]


class TextReading(Protocol):
    """The examples of a text, each with a number in `rows`, and the document that each target belongs to."""

    @property
    def whole(self) -> int:
        """Positions that are read."""

    @property
    def rows(self) -> int:
        """Examples."""

    @property
    def length(self) -> int:
        """Positions of an example at most."""

    @property
    def lengths(self) -> Ints:
        """(documents,): the tokens of each."""

    def bytes_each(self, targets: int) -> float | None:
        """Bytes of text of each of so many targets, None where unknown."""

    def once(self) -> Iterator[Examples]:
        """All examples once."""

    def documents(self, rows: Ints, columns: Ints) -> Ints:
        """The documents of the targets at these places of these examples."""


@dataclass(frozen=True)
class SideBySide:
    """Windows of T tokens one after the other, whatever documents are in them."""

    feed: TextFeed

    @property
    def whole(self) -> int:
        return self.feed.whole

    @property
    def rows(self) -> int:
        return -(-self.feed.whole // self.feed.length)

    @property
    def length(self) -> int:
        return self.feed.length

    @property
    def lengths(self) -> Ints:
        return np.diff(np.append(self.feed.split.starts, len(self.feed.split)))

    def bytes_each(self, targets: int) -> float | None:
        return self.feed.bytes_each

    def once(self) -> Iterator[Examples]:
        return self.feed.once()

    def documents(self, rows: Ints, columns: Ints) -> Ints:
        # The target stands one place after its prediction, in the document that it belongs to.
        place = rows * self.feed.length + columns + 1
        return np.searchsorted(self.feed.split.starts, place, side="right") - 1


class TargetWindow(NamedTuple):
    """Tokens `start` to `stop` - 1 of a document; those from `first` on are targets."""

    start: int
    first: int
    stop: int


@dataclass(frozen=True, eq=False)
class ByDocument:
    """Each document on its own: every token but the first is a target once.

    A document that the tokenizer puts nothing before follows the token that begins a text, or else the one that ends one, and
    the token that only separates it from the next is left out. `stride` None: windows of T targets, each after one token of
    the last one, and the last one with all that fits before it, as `loglikelihood_rolling` of lm-evaluation-harness; else
    windows of T tokens that begin `stride` apart, in which what an earlier one had is context, as transformers' page on
    perplexity has it. `alone`: no example beside another of other length.
    """

    split: Split
    tokenizer: Tokenizer
    length: int
    most: int
    stride: int | None = None
    alone: bool = False

    @property
    def whole(self) -> int:
        return int(sum(window.stop - window.start for _, window in self._windows))

    @property
    def rows(self) -> int:
        return len(self._windows)

    @cached_property
    def lengths(self) -> Ints:
        return np.array([len(self._tokens(number)) for number in range(len(self.split.starts))])

    def bytes_each(self, targets: int) -> float | None:
        return self.split.bytes / targets or None if targets else None

    def once(self) -> Iterator[Examples]:
        order = sorted(range(self.rows), key=lambda row: -_width(self._windows[row][1]))
        while order:
            width = _width(self._windows[order[0]][1])
            batch = order[: max(1, self.most // width)]
            if self.alone:
                batch = [row for row in batch if _width(self._windows[row][1]) == width]
            order = order[len(batch) :]
            yield self._examples(batch, width)

    def documents(self, rows: Ints, columns: Ints) -> Ints:
        return self._owners[rows]

    def _examples(self, rows: list[int], width: int) -> Examples:
        read, wanted = [], []
        for row in rows:
            document, window = self._windows[row]
            tokens = self._tokens(document)[window.start : window.stop]
            context = window.first - window.start
            read.append(tokens[:-1])
            wanted.append([*[IGNORED] * (context - 1), *tokens[context:]])
        tokens_BT, targets_BT = (torch.from_numpy(padded(side, width, fill)) for side, fill in ((read, 0), (wanted, IGNORED)))
        return Examples(tokens_BT, targets_BT, None, torch.tensor(rows))

    def _tokens(self, document: int) -> list[int]:
        starts = self.split.starts
        stop = int(starts[document + 1]) if document + 1 < len(starts) else len(self.split)
        tokens: list[int] = self.split.tokens[int(starts[document]) : stop].tolist()
        frame, end = self.tokenizer.frame.single, self.tokenizer.end_of_text
        if not frame.behind and tokens and tokens[-1] == end:
            tokens = tokens[:-1]
        return tokens if frame.before else [prefix_of(self.tokenizer), *tokens]

    @cached_property
    def _windows(self) -> list[tuple[int, TargetWindow]]:
        cut = rolling if self.stride is None else strided
        return [
            (number, window)
            for number, length in enumerate(self.lengths.tolist())
            for window in cut(length, self.length, self.stride or self.length)
        ]

    @cached_property
    def _owners(self) -> Ints:
        return np.array([document for document, _ in self._windows], dtype=np.int64)


def rolling(tokens: int, length: int, stride: int) -> Iterator[TargetWindow]:
    """Windows of `length` targets and what is read before them, of a document of so many tokens."""
    for first in range(1, tokens, length):
        stop = min(first + length, tokens)
        yield TargetWindow(max(0, stop - length - 1), first, stop)


def strided(tokens: int, length: int, stride: int) -> Iterator[TargetWindow]:
    """Windows of `length` tokens that begin `stride` apart, until one reaches the end."""
    first = 1
    for start in range(0, tokens - 1, stride):
        stop = min(start + length, tokens)
        yield TargetWindow(start, first, stop)
        first = stop
        if stop == tokens:
            return


def _width(window: TargetWindow) -> int:
    """Positions that are read: the last token is only a target."""
    return window.stop - window.start - 1
