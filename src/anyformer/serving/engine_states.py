"""Texts in the memory of another engine: it computes their logits, and the scheduler chooses tokens as of its own states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.engines.sequences import SequenceMaker, TextSequences
from anyformer.generation.chances import Chances
from anyformer.generation.decode import chunk_of
from anyformer.generation.memory import state_bytes
from anyformer.model.transformer import Transformer
from anyformer.serving.reading import PromptReading
from anyformer.serving.request import ServedRequest
from anyformer.serving.states import check_row


class SequenceReading(PromptReading):
    """A prompt that an engine reads into a row: without the decode state of `PromptReading`, and all that needs one."""

    def __init__(
        self, request: ServedRequest, sequences: TextSequences, row: int, read: Callable[[Tensor], None], chunk: int
    ) -> None:
        self.request, self.told = request, list[Chances]()
        self.chunk, self.count = chunk, 0
        self.logits: Tensor | None = None
        self._read = read
        self.tokens_BT = torch.tensor([request.tokens])
        self._pieces = self._chunks(sequences, row)

    def _chunks(self, sequences: TextSequences, row: int) -> Iterator[Tensor | None]:
        tokens = self.request.tokens
        for first in range(0, len(tokens), self.chunk):
            piece = tokens[first : first + self.chunk]
            self.count, read = len(piece), first + len(piece)
            whole = read == len(tokens)
            logits_TV = sequences.read(row, piece, self.count if self.request.echo else int(whole))
            if self.request.echo:
                self._tell(logits_TV, read)
            yield logits_TV[-1:] if whole else None


@dataclass
class EngineStates:
    """`count` rows of `length` tokens, taken once. `model`: the description of what the engine computes.

    `held` is what is foretold: an engine takes its memory whole, and does not say how much (llama.cpp adds a chunk to each
    window). Beginnings of prompts are not kept.
    """

    model: Transformer
    make: SequenceMaker
    count: int
    length: int
    chunk: int | None = None
    prefixes: None = None
    _rows: dict[int, int] = field(default_factory=dict)
    _read: set[int] = field(default_factory=set)
    """Texts whose prompts were read."""

    def __post_init__(self) -> None:
        self._sequences = self.make(self.count, self.length)
        self._bytes = engine_bytes(self.model, self.count, self._sequences.length)

    @property
    def places(self) -> int:
        return self.count

    @property
    def total(self) -> int:
        return self._bytes

    @property
    def foretold(self) -> int:
        return self._bytes

    @property
    def held(self) -> int:
        return self._bytes

    def check(self, request: ServedRequest) -> None:
        check_row(self.model, request, self.length)

    def fits(self, request: ServedRequest) -> bool:
        return len(self._rows) < self.count

    def enter(self, number: int, request: ServedRequest) -> PromptReading:
        # The first free row, so that those of texts follow one another: an engine may compute them in one pass then alone.
        row = self._rows[number] = min(set(range(self.count)) - set(self._rows.values()))
        chunk = chunk_of(self.model, self.chunk)
        return SequenceReading(request, self._sequences, row, lambda _: self._read.add(number), chunk)

    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        assert tokens.keys() == self._read, "a step reads a token of every text"
        found = self._sequences.advance({self._rows[number]: token for number, token in tokens.items()})
        return {number: found[self._rows[number]] for number in tokens}

    def leave(self, number: int) -> None:
        self._read.discard(number)
        self._sequences.forget(self._rows.pop(number))


def engine_bytes(model: Transformer, count: int, length: int) -> int:
    """Bytes of so many texts of so many tokens, in the numbers in which the engine holds them."""
    return count * state_bytes(model, 1, length)
