"""The texts of several rows as far as they are written: what the choice of a next token may depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Prefixes:
    """The tokens of every row, its prompt and what was made of it, each from place 0 on; what stands behind means nothing.

    `tokens` (B, C); `lengths` and `prompts`: how many tokens each row has, and how many of them are its prompt; of a model with
    two inputs that is the target's beginning, and `sources` (B, S) with `spans` are what it reads. `ends` end a row; `most`:
    tokens that are made of a prompt at most.
    """

    tokens: Tensor
    lengths: list[int]
    prompts: list[int]
    ends: tuple[int, ...] = ()
    most: int = 0
    sources: Tensor | None = None
    spans: tuple[int, ...] = ()
    keep: int = 1
    """Tokens of each row that can still be drawn at least: beams need some beside the ends."""

    @staticmethod
    def of(
        prompts: Sequence[Sequence[int]],
        device: torch.device | str = "cpu",
        *,
        ends: Sequence[int] = (),
        most: int = 0,
        sources: Sequence[Sequence[int]] | None = None,
    ) -> Prefixes:
        """The texts that begin with some prompts."""
        lengths = [len(prompt) for prompt in prompts]
        beside = None if sources is None else _table(sources, device)
        spans = () if sources is None else tuple(map(len, sources))
        return Prefixes(_table(prompts, device), lengths, list(lengths), tuple(ends), most, beside, spans)

    @staticmethod
    def begun(
        prompts: Sequence[Sequence[int]], start: int | None, device: torch.device | str, *, ends: Sequence[int], most: int
    ) -> Prefixes:
        """The texts that begin with some prompts, or the targets that begin with `start`, whose sources these are."""
        if start is None:
            return Prefixes.of(prompts, device, ends=ends, most=most)
        return Prefixes.of([[start]] * len(prompts), device, ends=ends, most=most, sources=prompts)

    @property
    def made(self) -> list[int]:
        """How many tokens were made of each prompt."""
        return [length - prompt for length, prompt in zip(self.lengths, self.prompts, strict=True)]

    @property
    def written(self) -> Tensor:
        """The tokens without the places that no row has written, (B, T)."""
        return self.tokens[:, : max(self.lengths, default=0)]

    @property
    def present(self) -> Tensor:
        """Which places of `written` a row has written, (B, T)."""
        return _before(self.lengths, self.written)

    @property
    def new(self) -> Tensor:
        """Which places of `written` hold tokens made of a prompt, (B, T)."""
        return self.present & ~_before(self.prompts, self.written)

    @property
    def read(self) -> Tensor | None:
        """Which places of `sources` hold tokens, (B, S)."""
        return None if self.sources is None else _before(self.spans, self.sources)

    def add(self, tokens_B: Tensor, rows: Sequence[int] | None = None) -> None:
        """One token more per row, or for some."""
        rows = range(len(self.lengths)) if rows is None else rows
        self._make_room(1 + max((self.lengths[row] for row in rows), default=0))
        places = torch.tensor([self.lengths[row] for row in rows], device=self.tokens.device)
        self.tokens[torch.tensor(list(rows), device=self.tokens.device), places] = tokens_B
        for row in rows:
            self.lengths[row] += 1

    def put(self, rows: Sequence[int], other: Prefixes) -> None:
        """Rows `rows` become those of `other`."""
        self._make_room(other.tokens.shape[1])
        at = torch.tensor(list(rows), device=self.tokens.device)
        self.tokens[at, : other.tokens.shape[1]] = other.tokens
        for row, length, prompt in zip(rows, other.lengths, other.prompts, strict=True):
            self.lengths[row], self.prompts[row] = length, prompt
        if other.sources is not None:
            assert self.sources is not None, "all rows are read by calls of one form"
            self.sources = _wider(self.sources, other.sources.shape[1])
            self.sources[at, : other.sources.shape[1]] = other.sources
            spans = list(self.spans)
            for row, span in zip(rows, other.spans, strict=True):
                spans[row] = span
            self.spans = tuple(spans)

    def fork(self, rows: Sequence[int]) -> Prefixes:
        """New texts whose row i is a copy of row `rows[i]`."""
        at = torch.tensor(list(rows), device=self.tokens.device)
        return Prefixes(
            self.tokens[at], [self.lengths[row] for row in rows], [self.prompts[row] for row in rows], self.ends, self.most,
            None if self.sources is None else self.sources[at], tuple(self.spans[row] for row in rows if self.spans),
            self.keep,
        )  # fmt: skip

    def ahead(self, tokens: Sequence[int]) -> Prefixes:
        """Of texts of one row: this row, and then the row with one, two ... of `tokens` behind it."""
        found = self.fork([0] * (1 + len(tokens)))
        for number, token in enumerate(tokens):
            later = range(number + 1, 1 + len(tokens))
            found.add(torch.full((len(later),), token, device=self.tokens.device), later)
        return found

    def _make_room(self, count: int) -> None:
        if count > self.tokens.shape[1]:
            self.tokens = _wider(self.tokens, max(count, 2 * self.tokens.shape[1]))


def _table(rows: Sequence[Sequence[int]], device: torch.device | str) -> Tensor:
    """Rows of unequal length, filled up behind them."""
    width = max(map(len, rows), default=0)
    if width == 0:  # no numbers to copy
        return torch.zeros(len(rows), 0, dtype=torch.int64, device=device)
    return torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows], dtype=torch.int64, device=device)


def _wider(table: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(table, (0, max(width - table.shape[1], 0)))


def _before(lengths: Sequence[int], table: Tensor) -> Tensor:
    """Which places of each row of a table stand before its length."""
    counts = torch.tensor(list(lengths), device=table.device)
    return torch.arange(table.shape[1], device=table.device) < counts[:, None]
