"""A recorded decode step whose operators are computed by `step.cpp`, without torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.table import Table
from anyformer.generation.native.translated import plain
from anyformer.native import library, threads

SOURCE = Path(__file__).with_name("step.cpp")


class NativeStep:
    """The step of one text: a table for tensors `kept`, computed for those that are new each time."""

    def __init__(self, table: Table, kept: Sequence[Any], shape: Sequence[int], dtype: torch.dtype) -> None:
        self._words = (ctypes.c_int64 * len(table.words))(*table.words)
        self._shape, self._dtype = tuple(shape), dtype
        self._own = torch.empty(table.own + 64, dtype=torch.uint8)
        self._step = library(SOURCE)["step"]
        self._held = [kept[base[1]] if isinstance(base, tuple) and base[0] == "kept" else base for base in table.bases]
        self._given = [(number + 2, base[1]) for number, base in enumerate(table.bases) if isinstance(base, tuple) and base[0] == "given"]
        self._bases = (ctypes.c_void_p * (len(table.bases) + 2))()
        self._bases[0] = (self._own.data_ptr() + 63) // 64 * 64
        for number, base in enumerate(self._held):
            if isinstance(base, Tensor):
                self._bases[number + 2] = torch.ops.mkldnn.data_ptr(base) if base.is_mkldnn else base.data_ptr()
        self._threads, self._count = threads(), torch.get_num_threads()
        self._arguments = (self._threads, ctypes.c_int64(self._count), self._words, ctypes.c_int64(len(table.words)), self._bases)

    def __call__(self, *given: Tensor) -> Tensor:
        result = torch.empty(self._shape, dtype=self._dtype)
        self._bases[1] = result.data_ptr()
        for number, index in self._given:
            self._bases[number] = given[index].data_ptr()
        self._step(*self._arguments)
        return result
