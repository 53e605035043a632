"""Tables of hashed n-grams: rows for the latest tokens, which no vocabulary of n-grams has to list."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.describe import Count, Value
from anyformer.operations import Tally, Weight
from anyformer.parts.call.context import Context
from anyformer.parts.call.gapless import gapless
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.lookup import rows_of

TOKEN_BYTES = 8
"""Bytes of a token in decode state."""
_WORD = (1 << 64) - 1
_LARGEST = (1 << 63) - 1
_APART = 10_007


class Ngrams(Value):
    """Rows of the n-grams (t, t - 1, ... t - n + 1), n from `shortest` to `longest`, in `heads` tables for each n.

        h = (t f_0) xor (t-1 f_1) xor ... xor (t-n+1 f_(n-1)), row of a table of p rows: h mod p

    in whole numbers of 64 bits. The p are the primes from `rows` on, one for each table in order, without those of look-ups of
    a smaller `index`; f_i = 2 (s_i mod c) + 1, c = floor((2^63 - 1) / V) / 2, so that no product overflows, and s_i the output
    i + 2, from 1, of splitmix64 (Steele et al. 2014) from `seed` + 10,007 `index`. Different n-grams may share a row, rarely in
    all heads. It is the hash of Qwen4-Exp. Engram (Cheng et al. 2026, arXiv 2601.07372) has the same with other f_i, and first
    maps tokens that differ in case or accents alone to one, which is left out here.
    """

    vocab: Count
    """V, tokens."""
    rows: Count
    """Least rows of a table; a table of a prime number of rows, of at least so many, for each head of each n."""
    shortest: Annotated[int, Field(ge=2)] = 2
    longest: Annotated[int, Field(ge=2)] = 3
    heads: Count = 8
    """Tables of each n, by as many hashes."""
    multiple: Count = 1
    """All tables stand in one, whose rows are a multiple of this; the last ones are never read."""
    seed: Annotated[int, Field(ge=0)] = 0
    index: Annotated[int, Field(ge=0)] = 0
    """Number of this look-up among those of a model: each has factors and primes of its own."""
    before: Annotated[int, Field(ge=0)] = 0
    """The token that stands where none is: before the first of a row, or of a document."""
    ends: Annotated[int, Field(ge=0)] | None = None
    """A token that ends a text: n-grams behind it do not reach over it."""

    @model_validator(mode="after")
    def _in_order(self) -> Ngrams:
        if self.shortest > self.longest:
            raise ValueError(f"shortest = {self.shortest} is more than longest = {self.longest}: exchange them")
        for name, token in (("before", self.before), ("ends", self.ends)):
            if token is not None and token >= self.vocab:
                raise ValueError(f"{name} = {token} is no token of a vocabulary of {self.vocab}")
        return self

    @property
    def orders(self) -> range:
        """Every n."""
        return range(self.shortest, self.longest + 1)

    @property
    def tables(self) -> int:
        """The rows that are read of a token."""
        return len(self.orders) * self.heads

    @property
    def sizes(self) -> tuple[int, ...]:
        """The rows of each table, those of the shortest n-grams first."""
        return _primes(self.rows, (self.index + 1) * self.tables)[self.index * self.tables :]

    @property
    def total(self) -> int:
        """The rows of all tables."""
        return -(-sum(self.sizes) // self.multiple) * self.multiple

    @property
    def factors(self) -> tuple[int, ...]:
        """f_0 ... f_(longest - 1), odd."""
        bound = max(1, _LARGEST // self.vocab // 2)
        start = self.seed + _APART * self.index
        return tuple(2 * (_splitmix64(start, i + 2) % bound) + 1 for i in range(self.longest))

    @property
    def words(self) -> str:
        """In words: `2- to 3-grams, 8 hashes of each`."""
        orders = f"{self.longest}" if self.shortest == self.longest else f"{self.shortest}- to {self.longest}"
        return f"{orders}-grams, {self.heads} {'hash' if self.heads == 1 else 'hashes'} of each"

    def cost(self, width: int) -> Tally:
        """Weights only: no product is computed, and a token reads `tables` rows."""
        table = Weight((self.total, width), "replicate", "embedding", chosen=self.tables, linear=False)
        return Tally({"table": table})

    def build(self, width: int) -> NgramsModule:
        return NgramsModule(self, width)

    def state(self, batch: int, device: torch.device) -> ConvolutionState:
        """The latest n - 1 tokens of each row, n the longest."""
        recent = torch.full((batch, self.longest - 1), self.before, dtype=torch.int64, device=device)
        return ConvolutionState(recent)

    def state_bytes(self, batch: int) -> int:
        return batch * (self.longest - 1) * TOKEN_BYTES


class NgramsModule(nn.Module):
    """The context's tokens (B, T) -> a row of each table, (B, T, tables, P)."""

    def __init__(self, part: Ngrams, width: int) -> None:
        super().__init__()
        self.part, self.factors, self.sizes = part, part.factors, part.sizes
        self.starts = (0, *accumulate(self.sizes))
        self.table = nn.Parameter(torch.empty(part.total, width))

    def extra_repr(self) -> str:
        return self.part.words

    def forward(self, context: Context, state: ConvolutionState | None = None) -> Tensor:
        return rows_of(self.table, self.hashed(latest(self.part, context, state)), "hashed n-grams")

    def hashed(self, tokens_BTn: Tensor) -> Tensor:
        """The rows of the n-grams of which token k before the present is `tokens_BTn[..., k]`: (B, T, tables)."""
        mixed = tokens_BTn[..., 0] * self.factors[0]
        rows: list[Tensor] = []
        for k in range(1, self.part.longest):
            mixed = mixed ^ (tokens_BTn[..., k] * self.factors[k])
            if k + 1 in self.part.orders:
                tables = range(len(rows), len(rows) + self.part.heads)
                rows += [mixed % self.sizes[table] + self.starts[table] for table in tables]
        return torch.stack(rows, -1)


def latest(part: Ngrams, context: Context, state: ConvolutionState | None) -> Tensor:
    """Each token and those before it in its document, the latest first: (B, T, n); it updates the state."""
    assert context.tokens is not None, "a stack whose layers read tokens gets them"
    tokens_BT, count = context.tokens.long(), part.longest - 1
    past = tokens_BT.new_full((len(tokens_BT), count), part.before) if state is None else state.recent
    wide, segments, valid, back = torch.cat([past, tokens_BT], 1), context.segments, context.valid, None
    if segments is not None:
        segments = F.pad(segments.expand(len(wide), -1), (count, 0), value=-1)
    if valid is not None:
        order, back = context.once(("gapless", count), lambda: gapless(valid.expand(len(tokens_BT), -1), count))
        wide = wide.gather(1, order)
        segments = None if segments is None else segments.gather(1, order)
    length = wide.shape[1] - count
    here = wide[:, count:]
    found, reached = [here], torch.ones_like(here, dtype=torch.bool)
    for k in range(1, count + 1):
        near = wide[:, count - k : count - k + length]
        if segments is not None:
            reached = reached & (segments[:, count - k : count - k + length] == segments[:, count:])
        if part.ends is not None:
            reached = reached & (near != part.ends)
        found.append(near.where(reached, part.before))
    tokens_BTn = torch.stack(found, -1)
    if state is not None:
        state.recent.copy_(wide[:, length:])
    return tokens_BTn if back is None else tokens_BTn.gather(1, back[..., None].expand_as(tokens_BTn))


def _splitmix64(start: int, number: int) -> int:
    """Output `number`, from 1, of the generator from `start`."""
    word = (start + number * 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


@lru_cache(maxsize=64)
def _primes(least: int, count: int) -> tuple[int, ...]:
    """The first `count` primes from `least` on."""
    found: list[int] = []
    number = max(2, least)
    while len(found) < count:
        if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            found.append(number)
        number += 1
    return tuple(found)
