"""`ModelFacts`: the lengths and tokens of a model at which engines go wrong."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.pictures.patterns import masks_of
from anyformer.text import Tokenizer
from anyformer.text.conventions import Conventions

PLAIN, MADE = 24, 12
"""Tokens of a usual prompt, and tokens that are made of it, where the model's edges allow so many."""
TEXTS = ("A model reads this line, word by word.", "Twelve of 3,141 users - café, naïve, 東京 - wrote\n\ttwo lines.")
LEAST = 4
"""Positions that a model must be able to read."""


@dataclass(frozen=True)
class ModelFacts:
    """`windows`: how many latest positions, or positions of a chunk, some layer sees; `trained`: lengths beyond which rotary
    frequencies are scaled; `longest`: most positions of a request; `chunk`: tokens that an engine reads at once; `ends`: tokens
    that end a text; `texts`: texts with the tokens that they must become; `unusual`: tokens that no drawn text has.
    """

    vocabulary: int
    longest: int
    chunk: int = 512
    windows: tuple[int, ...] = ()
    trained: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    texts: Mapping[str, tuple[int, ...]] | None = None
    unusual: frozenset[int] = frozenset()
    seed: int = 0

    @classmethod
    def of(
        cls, architecture: Architecture, tokenizer: Tokenizer | None, conventions: Conventions, *, longest: int, chunk: int
    ) -> Self:
        """The facts of an architecture and of what stands beside its weights."""
        table = architecture.output_stack.max_length
        most = min(longest, table or longest)
        if most < LEAST:
            raise UserError(
                f"conform asks texts of {LEAST} tokens at least, and {most} are the most here: give a longer --longest"
            )
        spans = (mask.window or mask.chunk for mask in masks_of(architecture))
        sublayers = [
            sub for stack in architecture.stacks.values() for block in stack.variants.values() for sub in block.sublayers
        ]
        return cls(
            vocabulary=architecture.outputs,
            longest=most,
            chunk=chunk,
            windows=tuple(sorted({span for span in spans if span is not None})),
            trained=tuple(sorted({length for sub in sublayers for length in sub.trained_lengths})),
            ends=conventions.ends if tokenizer is None else tokenizer.ends,
            texts=None
            if tokenizer is None
            else {text: tuple(tokenizer.framed(tokenizer.encode(text)).tokens) for text in TEXTS},
            unusual=_unusual(architecture, tokenizer, conventions),
        )

    def at_most(self, longest: int | None) -> ModelFacts:
        """The same for an engine that reads no more than `longest` positions."""
        return self if longest is None or longest >= self.longest else replace(self, longest=longest)

    @cached_property
    def edge(self) -> int:
        """Positions within which no window, chunk or scaling shows."""
        return min(self.longest, self.chunk, *self.windows, *self.trained)

    @property
    def plain(self) -> int:
        """Tokens of a usual prompt."""
        return max(2, min(PLAIN, self.edge // 2))

    @property
    def made(self) -> int:
        """Tokens that are made of it."""
        return max(1, min(MADE, self.edge - self.plain))

    @cached_property
    def _usual(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([token for token in range(self.vocabulary) if token not in self.unusual])

    def drawn(self, name: str, length: int) -> tuple[int, ...]:
        """Ordinary tokens, the same for the same seed and name; a longer text begins as a shorter one."""
        generator = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        return tuple(map(int, self._usual[generator.integers(0, len(self._usual), length)]))


def _unusual(architecture: Architecture, tokenizer: Tokenizer | None, conventions: Conventions) -> frozenset[int]:
    """Special tokens, and tokens that stand for images or sounds."""
    towers = (architecture.images, architecture.audio)
    placeholders = {tower.token for tower in towers if tower is not None}
    named = set() if tokenizer is None else set(tokenizer.special_tokens.values())
    several = (*conventions.ends, conventions.begin, conventions.pad)
    return frozenset(placeholders | named | {token for token in several if token is not None})
