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
    repeat: Repeat, kept: Sequence[Any], tables: Tables, visible: int, memory: Sequence[Tensor], *, spans: bool
) -> Repeat:
    """The step of a text, computed from a table; `repeat` itself where an operator of it is unknown.

    `kept`: what the step reads and did not make, of this text; `memory`: the tensors of its decode state. Where no table is
    known one is made at the first step, of the operators of `repeat`. Sums are added up in another order than torch's, so
    numbers differ in rounding. A text whose tensors lie otherwise in memory than those of the first is left to `repeat`.
    """
    strides = tuple(each.stride() if plain(each) else () for each in kept)
    tables.strides = tables.strides or strides
    if tables.unknown or tables.strides != strides:
        return repeat
    return _Learning(repeat, tuple(kept), tables, visible, memory, spans)


class _Learning:
    """Computed by the table, which is made at the first call if there is none."""

    def __init__(
        self, repeat: Repeat, kept: tuple[Any, ...], tables: Tables, visible: int, memory: Sequence[Tensor], spans: bool
    ) -> None:
        self._repeat, self._kept, self._tables, self._visible, self._spans = repeat, kept, tables, visible, spans
        self._memory = memory
        table = tables.at(visible, spans=spans)
        self._native = None if table is None else NativeStep(table, kept)
        tables.used += table is not None
        if table is not None and tables.used == WORTHWHILE:
            held = (each for each in (*kept, *table.bases) if isinstance(each, Tensor))
            collapse_soon(each for each in held if each.is_mkldnn or plain(each))

    def __call__(self, *each: Tensor) -> Tensor:
        given = tuple(tensor.contiguous() for tensor in each)
        if self._native is not None and not torch.is_grad_enabled():
            return self._native(*given)
        if self._tables.unknown or torch.is_grad_enabled():
            return self._repeat(*given)
        with rehearsed(self._memory), captured(WRITES) as operators:
            result = self._repeat(*given)
        try:
            table = translated(operators, given, self._kept, result)
        except UnknownError as error:
            self._tables.unknown = str(error)
            return self._repeat(*given)
        self._tables.add(self._visible, table, spans=self._spans)
        self._native = NativeStep(table, self._kept)
        return self._native(*given)


class NativeStep:
    """The step of one text, whose tensors are `kept`, for those that are new each time."""

    def __init__(self, table: Table, kept: Sequence[Any]) -> None:
        self._shape, self._dtype = table.shape, table.dtype
        words = table.planned()
        self._own = torch.empty(table.memory.size + LINE, dtype=torch.uint8)
        self._held, self._given = [words], list[tuple[int, int]]()
        self._bases = (ctypes.c_void_p * (len(table.bases) + 2))(-(-self._own.data_ptr() // LINE) * LINE)
        for number, base in enumerate(table.bases, 2):
            match base:
                case ("given", index):
                    self._given.append((number, index))
                case ("kept", index):
                    self._hold(number, kept[index])
                case Tensor():
                    self._hold(number, base)
        count = ctypes.c_int64(torch.get_num_threads())
        self._arguments = (threads(), count, ctypes.c_void_p(words.data_ptr()), ctypes.c_int64(len(words)), self._bases)
        self._step = library(SOURCE)["step"]

    def __call__(self, *given: Tensor) -> Tensor:
        result = torch.empty(self._shape, dtype=self._dtype)
        self._bases[1] = result.data_ptr()
        for number, index in self._given:
            self._bases[number] = given[index].data_ptr()
        if self._step(*self._arguments):
            raise IndexError("a decode step reads a place that a tensor does not have, such as a token beyond the vocabulary")
        return result

    def _hold(self, number: int, tensor: Tensor) -> None:
        self._held.append(tensor)
        self._bases[number] = torch.ops.mkldnn.data_ptr(tensor) if tensor.is_mkldnn else tensor.data_ptr()
