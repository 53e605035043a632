"""A recorded decode step that `step.cpp` computes, without a call of torch in between."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.captured import captured
from anyformer.generation.native.large_pages import collapse_soon
from anyformer.generation.native.table import Table, UnknownError, plain
from anyformer.generation.native.tables import Tables
from anyformer.generation.native.translated import WRITES, translated
from anyformer.generation.recorded_step import Repeat
from anyformer.generation.rehearsal import rehearsed
from anyformer.native import library, problem, threads

SOURCE = Path(__file__).with_name("step.cpp")
LINE = 64
"""Bytes of a line of the processor's cache."""
WORTHWHILE = 8
"""How often tables were used, each for 16 tokens or more, when weights are moved to large pages: that costs what it saves in
some 200 tokens."""


@cache
def unavailable() -> str:
    """Why no step is computed so on this machine, in one line; empty if it can be. Compiles the source where none is kept."""
    return problem(SOURCE)


def natively(
    repeat: Repeat, kept: tuple[Any, ...], tables: Tables, visible: int, memory: Sequence[Tensor], before: Repeat | None, *,
    spans: bool,
) -> Repeat:  # fmt: skip
    """The step of a text, computed from a table; `repeat` itself where an operator of it is unknown.

    `kept`: what the step reads and did not make, of this text; `memory`: the tensors of its decode state; `before`: the step of
    the text with fewer visible slots. Where no table is known one is made at the first step, of the operators of `repeat`. Sums
    are added up in another order than torch's, so numbers differ in rounding. A text whose tensors lie otherwise in memory than
    those of the first is left to `repeat`.
    """
    same = before if isinstance(before, _Learning) and before.kept is kept else None
    if same is None:
        strides = tuple(each.stride() if plain(each) else () for each in kept)
        tables.strides = tables.strides or strides
        if tables.strides != strides:
            return repeat
    return repeat if tables.unknown else _Learning(repeat, kept, tables, visible, memory, same, spans=spans)


class _Learning:
    """Computed by the table, which is made at the first call if there is none."""

    def __init__(
        self, repeat: Repeat, kept: tuple[Any, ...], tables: Tables, visible: int, memory: Sequence[Tensor],
        before: _Learning | None, *, spans: bool,
    ) -> None:  # fmt: skip
        self._repeat, self.kept, self._tables, self._visible, self._spans = repeat, kept, tables, visible, spans
        self._memory = memory
        self._before: NativeStep | None = None if before is None else before._native
        table = tables.at(visible, spans=spans)
        self._native: NativeStep | None = None if table is None else self._computed_by(table)
        tables.used += table is not None
        if table is not None and tables.used == WORTHWHILE:
            held = (each for each in (*kept, *table.bases) if isinstance(each, Tensor))
            collapse_soon(each for each in held if each.is_mkldnn or plain(each))

    def _computed_by(self, table: Table) -> NativeStep:
        if self._before is None or self._before.bases is not table.bases:
            return NativeStep(table, self.kept)
        self._before.take(table)
        return self._before

    def __call__(self, *each: Tensor) -> Tensor:
        given = tuple(tensor.contiguous() for tensor in each)
        if self._native is not None and not torch.is_grad_enabled():
            return self._native(*given)
        if self._tables.unknown or torch.is_grad_enabled():
            return self._repeat(*given)
        with rehearsed(self._memory), captured(WRITES) as operators:
            result = self._repeat(*given)
        try:
            table = translated(operators, given, self.kept, result)
        except UnknownError as error:
            self._tables.unknown = str(error)
            return self._repeat(*given)
        self._native = self._computed_by(self._tables.add(self._visible, table, spans=self._spans))
        return self._native(*given)


class NativeStep:
    """The step of one text, whose tensors are `kept`, for those that are new each time."""

    def __init__(self, table: Table, kept: Sequence[Any]) -> None:
        self._shape, self._dtype, self.bases = table.shape, table.dtype, table.bases
        self._own = torch.empty(0, dtype=torch.uint8)
        self._held, self._given = list[Tensor](), list[tuple[int, int]]()
        self._places = (ctypes.c_void_p * (len(table.bases) + 2))()
        for number, base in enumerate(table.bases, 2):
            match base:
                case ("given", index):
                    self._given.append((number, index))
                case ("kept", index):
                    self._hold(number, kept[index])
                case Tensor():
                    self._hold(number, base)
        self._step = library(SOURCE)["step"]
        self.take(table)

    def take(self, table: Table) -> None:
        """Compute by this table, which names the same tensors."""
        if table.memory.size + LINE > len(self._own):
            self._own = torch.empty(table.memory.size + LINE, dtype=torch.uint8)
            self._places[0] = -(-self._own.data_ptr() // LINE) * LINE
        self._words = table.planned()
        count, words = ctypes.c_int64(torch.get_num_threads()), ctypes.c_void_p(self._words.data_ptr())
        self._arguments = (threads(), count, words, ctypes.c_int64(len(self._words)), self._places)

    def __call__(self, *given: Tensor) -> Tensor:
        result = torch.empty(self._shape, dtype=self._dtype)
        self._places[1] = result.data_ptr()
        for number, index in self._given:
            self._places[number] = given[index].data_ptr()
        if self._step(*self._arguments):
            raise IndexError("a decode step reads a place that a tensor does not have, such as a token beyond the vocabulary")
        return result

    def _hold(self, number: int, tensor: Tensor) -> None:
        self._held.append(tensor)
        self._places[number] = torch.ops.mkldnn.data_ptr(tensor) if tensor.is_mkldnn else tensor.data_ptr()
