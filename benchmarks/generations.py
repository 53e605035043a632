"""Greedy generations of one case, timed alike for every contender."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases import BATCHES, CONTEXTS, DECODERS

Stamped = list[tuple[float, list[int]]]
"""New tokens of all rows in order, each step with the moment at which it was known."""
Generate = Callable[[list[list[int]]], Stamped]


def stamp(steps: Iterable[list[int]]) -> Stamped:
    """Draw `steps` one by one and note when each arrived."""
    return [(time.perf_counter(), tokens) for tokens in steps]


@dataclass
class Generations:
    """Generations of `new` tokens for each of `batch` made-up prompts; a unit is one, from its first new token to its last.

    `made` and `first_tokens`: of each generation the tokens by step and row, and the seconds to the first of them.
    """

    generate: Generate
    vocab: int
    batch: int
    context: int
    new: int
    seed: int
    made: list[list[list[int]]] = field(default_factory=list)
    first_token: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        drawn = random.Random(self.seed)
        self.prompts = [[drawn.randrange(3, self.vocab) for _ in range(self.context)] for _ in range(self.batch)]

    def unit(self) -> float:
        begin = time.perf_counter()
        stamped = self.generate(self.prompts)
        self.made.append([tokens for _, tokens in stamped])
        self.first_token.append(stamped[0][0] - begin)
        return stamped[-1][0] - stamped[0][0]

    @property
    def tokens(self) -> int:
        """New tokens of all rows that a unit's seconds stand for: all but the first of each row, which reading yields."""
        return self.batch * (self.new - 1)

    def outcome(self) -> dict[str, Any]:
        for made in self.made:
            if len(made) != self.new or not all(
                len(step) == self.batch and all(0 <= token < self.vocab for token in step) for step in made
            ):
                raise SystemExit(f"a generation is not {self.batch} rows of {self.new} tokens of the vocabulary: {made}")
        return {
            "first_tokens": [step[0] for step in self.made[-1][:8]],
            "repeatable": all(made == self.made[0] for made in self.made),
            "first_token_seconds": round(self.first_token[-1], 4),
        }


def decoding_options(parser: argparse.ArgumentParser) -> None:
    """What every worker of decoding is asked."""
    parser.add_argument("--model", choices=tuple(DECODERS), default="dense")
    parser.add_argument("--batch", type=int, default=BATCHES[0], help="rows that are decoded at once")
    parser.add_argument("--context", type=int, default=CONTEXTS[0], help="tokens of each prompt")
    parser.add_argument("--tiny", action="store_true", help="a small model of the same kind, for a rehearsal")
