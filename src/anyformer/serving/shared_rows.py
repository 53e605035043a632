"""Texts as rows of one decode state, allocated once: a step reads the weights once for all of them.

A step computes the first 1, 2, 4, 8 ... rows, as many as hold texts: products of eight rows may take twice the time of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.generation.aligned_rows import AlignedRows
from anyformer.generation.decode import Step, decode, prefill
from anyformer.generation.memory import state_bytes
from anyformer.model.transformer import Transformer
from anyformer.parts.call.row_view import row_view
from anyformer.parts.call.stack_state import StackState
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.reading import PromptReading
from anyformer.serving.request import ServedRequest
from anyformer.serving.states import check_row, side_by_side


@dataclass
class SharedRows:
    """`count` rows of `length` positions, and one more state beside them, into which a prompt is read.

    `chunk`: see `read_pieces`; `step` and `multiple`: as of `continued`. Raises `UserError` for a model whose rows would change
    one another.
    """

    model: Transformer
    count: int
    length: int
    chunk: int | None = None
    step: Step = decode
    multiple: int = 1
    prefixes: PromptPrefixes | None = None
    _rows: AlignedRows = field(init=False)
    _places: dict[int, int] = field(default_factory=dict)
    _read: set[int] = field(default_factory=set)
    _beside: StackState | None = None
    _views: dict[int, StackState] = field(default_factory=dict)
    """The first rows of the state, by how many."""

    def __post_init__(self) -> None:
        if (reason := side_by_side(self.model)) is not None:
            raise UserError(f"texts cannot be rows of one decode state here: {reason}; give every text its own (--own-states)")
        self._before = self.model.architecture.virtual_tokens or 0
        self._rows = aligned(self.model, self.count, self.length, self.multiple)
        self._bytes = rows_bytes(self.model, self.count, self.length, self.multiple)
        self._begin()

    @torch.inference_mode()
    def _begin(self) -> None:
        """Allocate everything, and read a token into all rows, so that the state has the form that calls leave."""
        state = self._rows.state = self._state(self.count)
        prefill(self.model, torch.zeros(self.count, 1, dtype=torch.int64, device=self.model.device), None, state)
        self._empty()
        self._beside = self._state(1)

    def _state(self, rows: int) -> StackState:
        return self.model.state(rows, self._rows.most - self._before)

    @property
    def places(self) -> int:
        return self.count

    @property
    def total(self) -> int:
        return self.foretold

    @property
    def foretold(self) -> int:
        return self._bytes

    @property
    def held(self) -> int:
        return sum(state.nbytes for state in (self._rows.state, self._beside) if state is not None)

    def check(self, request: ServedRequest) -> None:
        check_row(self.model, request, self.length)

    def fits(self, request: ServedRequest) -> bool:
        return len(self._places) < self.count and len(self._read) == len(self._places)

    @torch.inference_mode()
    def enter(self, number: int, request: ServedRequest) -> PromptReading:
        place = min(set(range(self.count)) - set(self._places.values()))
        self._places[number] = place
        self._beside = None  # freed before as much is taken again
        fresh = self._beside = self._state(1)

        def read(_: Tensor) -> None:
            span = len(request.tokens) + self._before
            self._rows.make_room(span)
            self._rows.put([place], fresh, [span])
            self._read.add(number)

        return PromptReading(self.model, request, fresh, read, chunk=self.chunk, prefixes=self.prefixes)

    @torch.inference_mode()
    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        assert tokens.keys() == self._read, "a step reads a token into every row"
        rows = min(self.count, 1 << max(self._places[number] for number in tokens).bit_length())
        pending = [0] * rows
        for number, token in tokens.items():
            pending[self._places[number]] = token
        logits_BV = self.step(self.model, torch.tensor(pending, device=self.model.device), self._first(rows))
        return {number: logits_BV[self._places[number]][None] for number in tokens}

    def _first(self, rows: int) -> StackState:
        """The first rows, with a slot reserved for one more token of each."""
        state = self._rows.advanced()
        if rows not in self._views:
            self._views[rows] = row_view(state, rows)
        slots = self._views[rows].slots
        slots.used, slots.start, slots.visible = state.slots.used, state.slots.start, state.slots.visible
        return self._views[rows]

    @torch.inference_mode()
    def leave(self, number: int) -> None:
        place = self._places.pop(number)
        if number in self._read:
            self._read.remove(number)
            self._rows.leave([place])
        if not self._read:
            self._empty()

    def _empty(self) -> None:
        """No row holds a slot: the next text begins at the first."""
        state = self._rows.state
        assert state is not None, "it was allocated"
        self._rows.leave(range(self.count))
        state.shift(-state.slots.used)


def aligned(model: Transformer, count: int, length: int, multiple: int) -> AlignedRows:
    """Rows of so many positions behind what the model puts in front of every text."""
    return AlignedRows(model, count, length + (model.architecture.virtual_tokens or 0), multiple=multiple)


def rows_bytes(model: Transformer, count: int, length: int, multiple: int) -> int:
    """Bytes of the states of `SharedRows`."""
    positions = aligned(model, count, length, multiple).most - (model.architecture.virtual_tokens or 0)
    return sum(state_bytes(model, rows, positions) for rows in (count, 1))
