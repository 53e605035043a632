"""Tables of hashed n-grams: rows for the latest tokens, which no vocabulary of n-grams has to list."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from anyformer.describe import Count, Value
from anyformer.operations import Tally, Weight

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState
    from anyformer.parts.embedding.ngrams_module import NgramsModule


TOKEN_BYTES = 8
"""Bytes of a token in decode state."""
_WORD = (1 << 64) - 1
_LARGEST = (1 << 63) - 1
_APART = 10_007


class Ngrams(Value):
    """Rows of the n-grams (t, t - 1, ... t - n + 1), n from `shortest` to `longest`, in `heads` tables per n.

        h = (t f_0) xor (t-1 f_1) xor ... xor (t-n+1 f_(n-1)), row of a table of p rows: h mod p

    in whole numbers of 64 bits. The p are the primes from `rows` on, one per table in order, without those of look-ups of
    a smaller `index`; f_i = 2 (s_i mod c) + 1, c = floor((2^63 - 1) / V) / 2, so that no product overflows, and s_i the output
    i + 2, from 1, of splitmix64 (Steele et al. 2014) from `seed` + 10,007 `index`. Different n-grams may share a row, rarely in
    all heads. It is the hash of Qwen4-Exp. Engram (Cheng et al. 2026, arXiv 2601.07372) has the same with other f_i, and first
    maps tokens that differ in case or accents alone to one, which is left out here.
    """

    vocab: Count
    """V, tokens."""
    rows: Count
    """Least rows of a table; a table of a prime number of rows, of at least so many, per head of each n."""
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
        from anyformer.parts.embedding.ngrams_module import NgramsModule

        return NgramsModule(self, width)

    def state(self, batch: int, device: torch.device) -> ConvolutionState:
        """The latest n - 1 tokens of each row, n the longest."""
        import torch

        from anyformer.parts.call.recurrent_state import ConvolutionState

        recent = torch.full((batch, self.longest - 1), self.before, dtype=torch.int64, device=device)
        return ConvolutionState(recent)

    def state_bytes(self, batch: int) -> int:
        return batch * (self.longest - 1) * TOKEN_BYTES


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
