"""The safetensors files of a directory: every tensor by its name there, as it is stored; never a pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import safetensors
import torch
from safetensors import safe_open
from torch import Tensor

from anyformer.describe import Notice
from anyformer.huggingface.config import read_table, shown
from anyformer.huggingface.errors import HuggingFaceError

INDEX, WHOLE = "model.safetensors.index.json", "model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
TYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "BOOL": torch.bool,
        "U8": torch.uint8,
        "I8": torch.int8,
        "U16": torch.uint16,
        "I16": torch.int16,
        "U32": torch.uint32,
        "I32": torch.int32,
        "U64": torch.uint64,
        "I64": torch.int64,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2,
        "F8_E8M0": torch.float8_e8m0fnu,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
        "F32": torch.float32,
        "F64": torch.float64,
    }
)
"""Type of numbers in a header -> torch's."""
PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of weights that are computed with as they are."""


class TensorFiles:
    """The tensors of a directory, each read from its file when needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.of = _files(directory)
        self._headers: dict[str, Mapping[str, tuple[torch.dtype, tuple[int, ...]]]] = {}
        self._last: tuple[Path, Any] | None = None
        """The file of the last tensor: the next is mostly of the same, and opening it maps it anew."""

    @property
    def names(self) -> Mapping[str, str]:
        """Name of each tensor -> its file."""
        return self.of

    def path(self, name: str) -> Path:
        """The file of a tensor."""
        if name not in self.of:
            raise HuggingFaceError(f"{self.directory}: has no tensor {name}")
        return self.directory / self.of[name]

    def header(self, name: str) -> tuple[torch.dtype, tuple[int, ...]]:
        """The type and shape of a tensor, from its file's header."""
        path = self.path(name)
        if path.name not in self._headers:
            self._headers[path.name] = _header(path)
        if name not in self._headers[path.name]:
            raise HuggingFaceError(f"{path}: {name} is not in it, although the index says so")
        return self._headers[path.name][name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.header(name)[1]

    def dtype(self, name: str) -> torch.dtype:
        return self.header(name)[0]

    def bytes_of(self, name: str) -> int:
        """Bytes of a tensor."""
        dtype, shape = self.header(name)
        return prod(shape) * dtype.itemsize

    def raw(self, name: str) -> Tensor:
        """One tensor of any type, read from its file."""
        self.header(name)
        return self._read(name)

    def tensor(self, name: str) -> Tensor:
        """One weight that is stored as plain floating-point numbers."""
        dtype = self.dtype(name)
        if dtype not in PLAIN:
            number = str(dtype).removeprefix("torch.")
            eight_bits = "" if not dtype.is_floating_point else " of 16 bits or more, or has its scale beside it"
            raise HuggingFaceError(
                f"{self.path(name)}: {name} is stored as {number}, and a weight is a floating-point number{eight_bits}"
            )
        return self._read(name)

    def _read(self, name: str) -> Tensor:
        path = self.path(name)
        if self._last is None or self._last[0] != path:
            self._last = path, opened(path)
        tensor: Tensor = self._last[1].get_tensor(name)
        return tensor


def _header(path: Path) -> Mapping[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Name -> type and shape of every tensor in a file."""
    found = {}
    with opened(path) as file:
        for name in file.keys():  # noqa: SIM118
            piece = file.get_slice(name)
            if piece.get_dtype() not in TYPES:
                raise HuggingFaceError(f"{path}: {name} is stored as {piece.get_dtype()}, which is not read here")
            found[name] = TYPES[piece.get_dtype()], tuple(piece.get_shape())
    return found


def _files(directory: Path) -> Mapping[str, str]:
    """Name of each tensor -> its file; the whole file where there is one, as in transformers, whatever an index says."""
    index = directory / INDEX
    if (directory / WHOLE).is_file():
        with opened(directory / WHOLE) as file:
            whole = dict.fromkeys(file.keys(), WHOLE)
        if index.is_file() and (named := _disagreement(index, whole)):
            said = f"{directory}: {WHOLE} is read, as by transformers, and {INDEX} beside it is not: {named}"
            warnings.warn(said, Notice, stacklevel=2)
        return whole
    if index.is_file():
        table = read_table(index).get("weight_map")
        if not isinstance(table, dict) or not all(isinstance(file, str) for file in table.values()):
            raise HuggingFaceError(f"{index}: weight_map should be a table of tensors and their files, got {shown(table)}")
        outside = sorted({file for file in table.values() if Path(file).name != file})
        if outside:
            raise HuggingFaceError(f"{index}: names files outside the directory: {shown(outside[:4])}")
        missing = sorted({file for file in table.values() if not os.path.isfile(directory / file)})
        if missing:
            raise HuggingFaceError(f"{directory}: the index names files that are not there: {shown(missing[:4])}")
        return table
    pickled = sorted(path.name for path in directory.glob("*") if path.suffix in PICKLED)
    if pickled:
        raise HuggingFaceError(
            f"{directory}: the weights are in {pickled[0]}, and unpickling can run anybody's code; save them as "
            f"safetensors with transformers' model.save_pretrained()"
        )
    raise HuggingFaceError(f"{directory}: has neither {WHOLE} nor {INDEX}")


def _disagreement(index: Path, whole: Mapping[str, str]) -> str:
    """What an index says otherwise than the file with all tensors; empty where both agree."""
    table = read_table(index).get("weight_map")
    if not isinstance(table, dict):
        return "it holds no table of files"
    others = sorted({str(file) for file in table.values()} - {WHOLE})
    if others:
        return f"it names {shown(others[:4])}; remove what is of another model"
    different = sorted(table.keys() ^ whole.keys())
    return f"they disagree about {shown(different[:4])}" if different else ""


def opened(path: Path) -> safe_open:
    """The open file; an error that names it where it cannot be read."""
    try:
        return safe_open(path, "pt")
    except (safetensors.SafetensorError, OSError) as error:
        raise HuggingFaceError(f"{path}: cannot be read as safetensors ({error})") from None
