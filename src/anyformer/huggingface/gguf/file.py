"""A GGUF file: its metadata, and plain tensors by the names of Hugging Face's layout. Read with the package `gguf`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.describe import did_you_mean
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.architectures import INERT, SPELLINGS
from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.reader import DAMAGED, SUFFIX, library, opened, pieces_of
from anyformer.huggingface.gguf.spelling import Change, GgufArchitecture
from anyformer.huggingface.stored import Held, filled, held_in

NEVER_READ = ("rope_freqs.weight",)
"""Tensors that follow from the metadata, or from which it is completed."""
PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types of tensors of plain numbers."""
SPLIT = "split"
"""What keys of files in several pieces begin with."""


@dataclass(frozen=True)
class TensorPlace:
    """A tensor of the file, or one of the experts that it stacks, and what undoes the converter's change."""

    tensor: Any
    expert: int | None
    change: Change | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the file."""
        whole = shape_of(self.tensor)
        return whole if self.expert is None else whole[1:]


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape of a tensor of the package, whose sizes run from the last dimension to the first."""
    return tuple(int(size) for size in reversed(tensor.shape))


class GgufFile:
    """The tensors of a file by the names that they have in Hugging Face's layout.

    Weights become `dtype`; without it the type of the file's matrices, or bf16 where any is in few bits.
    """

    aside: tuple[str, ...] = ()

    def __init__(self, path: Path, dtype: torch.dtype | None = None) -> None:
        self.path, self._gguf = path, library()
        readers = [opened(piece) for piece in pieces_of(path)]
        try:
            self._fields = dict(readers[0].fields)
            self._tensors = {tensor.name: tensor for reader in readers for tensor in reader.tensors}
            architecture = str(self._value("general.architecture", "unnamed"))
            pieces, tensors = self._value(f"{SPLIT}.count", 1), self._value(f"{SPLIT}.tensors.count", len(self._tensors))
            table = {
                name.removeprefix(f"{architecture}."): name for name in self._fields if name.startswith(f"{architecture}.")
            }
            metadata = {short: self._value(name, None) for short, name in table.items()}
        except DAMAGED as error:
            raise HuggingFaceError(f"{path}: cannot be read as GGUF ({error}); it may be cut off: download it anew") from None
        if empty := [name for name, tensor in self._tensors.items() if 0 in tensor.shape]:
            raise HuggingFaceError(f"{path}: {empty[0]} has a dimension of 0, and so no numbers; download the file anew")
        if pieces != len(readers) or tensors != len(self._tensors):
            raise HuggingFaceError(
                f"{path}: is one of {pieces} files with {tensors} tensors, and {len(readers)} with {len(self._tensors)} are "
                f"here; put all of them side by side, under their names NAME-00001-of-{pieces:05}{SUFFIX} and so on"
            )
        if architecture not in SPELLINGS:
            hint = did_you_mean(architecture, sorted(SPELLINGS), "docs/huggingface.md")
            raise HuggingFaceError(f"{path}: the architecture {architecture!r} is not read from GGUF files{hint}")
        shapes = {name: shape_of(tensor) for name, tensor in self._tensors.items()}
        self.keys = GgufMetadata(str(path), architecture, metadata, shapes, self._numbers)
        self.dtype = dtype or self._usual()
        self._places = dict(self._placed(SPELLINGS[architecture]))
        self.names: Mapping[str, str] = dict.fromkeys(self._places, path.name)

    @property
    def config(self) -> Config:
        """The configuration that the metadata amounts to. Refuses keys of it that are not known."""
        try:
            table = SPELLINGS[self.keys.architecture].config(self.keys)
        except (KeyError, TypeError, ZeroDivisionError) as error:
            raise HuggingFaceError(f"{self.path}: its metadata or tensors are incomplete ({error!r})") from None
        self.keys.finish(INERT)
        return Config({name: value for name, value in table.items() if value is not None}, str(self.path))

    def shape(self, name: str) -> tuple[int, ...]:
        place = self._places[name]
        if place.change is None:
            return place.shape
        return tuple(self._changed(place, torch.empty(place.shape, device="meta")).shape)

    def type_of(self, name: str) -> torch.dtype:
        return self.dtype

    def tensor(self, name: str) -> Tensor:
        """One weight, each number computed in fp32 and rounded once."""
        place = self._places[name]
        whole = self._restored(place.tensor, place.expert, self.dtype if place.change is None else torch.float32)
        return whole if place.change is None else self._changed(place, whole).to(self.dtype)

    def kept(self, name: str) -> Tensor:
        """As `tensor`: nothing in a file of this layout is written again as it is."""
        return self.tensor(name)

    def _changed(self, place: TensorPlace, tensor: Tensor) -> Tensor:
        """A tensor without the converter's change."""
        assert place.change is not None
        try:
            return place.change(tensor, self.keys)
        except (RuntimeError, TypeError, ZeroDivisionError) as error:
            raise HuggingFaceError(
                f"{self.path}: {place.tensor.name} of shape {place.shape} does not fit the metadata ({error})"
            ) from None

    def held(self) -> tuple[Held, ...]:
        """How the file holds its weights: each type with its bytes, the largest first."""
        ways: dict[tuple[str, bool], list[tuple[int, int]]] = {}
        for name, tensor in self._tensors.items():
            kind, loaded = tensor.tensor_type.name, 0 if name in NEVER_READ else int(tensor.n_elements) * self.dtype.itemsize
            ways.setdefault((f"{kind} of GGUF", kind not in PLAIN), []).append((int(tensor.n_bytes), loaded))
        return held_in(ways)

    def _placed(self, spelling: GgufArchitecture) -> Iterator[tuple[str, TensorPlace]]:
        """(name in Hugging Face's layout, its place in the file); a tensor without a spelling keeps its name."""
        for name, tensor in self._tensors.items():
            if name in NEVER_READ:
                continue
            module, _, leaf = name.rpartition(".")
            block, _, rest = module.removeprefix("blk.").partition(".")
            inside = module.startswith("blk.")
            short = rest if inside else module
            known = (spelling.layer if inside else spelling.outside).get(short)
            change = spelling.changes.get(short)
            if known is None:
                yield name, TensorPlace(tensor, None, None)
                continue
            full = f"{spelling.prefix.replace('{i}', block) if inside else ''}{known}.{leaf}"
            if "{x}" in full:
                for expert in range(self.keys.shapes[name][0]):
                    yield full.replace("{x}", str(expert)), TensorPlace(tensor, expert, change)
            else:
                yield full, TensorPlace(tensor, None, change)

    def _restored(self, tensor: Any, expert: int | None, dtype: torch.dtype) -> Tensor:
        """A tensor of the file as plain numbers."""
        shape = shape_of(tensor)
        rows = tensor.data.reshape(-1, tensor.data.shape[-1])
        if expert is not None:
            each = len(rows) // shape[0]
            rows, shape = rows[expert * each : (expert + 1) * each], shape[1:]

        def numbers(start: int, end: int) -> Tensor:
            return torch.from_numpy(
                np.array(self._gguf.quants.dequantize(rows[start:end], tensor.tensor_type), dtype=np.float32)
            )

        try:
            return filled((prod(shape[:-1]), shape[-1]), dtype, 0, 1, numbers).reshape(shape)
        except (NotImplementedError, ValueError, RuntimeError) as error:
            raise HuggingFaceError(f"{self.path}: {tensor.name} of type {tensor.tensor_type.name}: {error}") from None

    def _numbers(self, name: str) -> list[float]:
        numbers: list[float] = self._restored(self._tensors[name], None, torch.float32).flatten().tolist()
        return numbers

    def _usual(self) -> torch.dtype:
        """The type of the matrices; bf16 where any is in few bits."""
        types = {tensor.tensor_type.name for tensor in self._tensors.values() if len(tensor.shape) > 1}
        if not types <= PLAIN.keys():
            return torch.bfloat16
        return next((PLAIN[name] for name in ("BF16", "F16") if name in types), torch.float32)

    def _value(self, name: str, default: Any) -> Any:
        """A value of the metadata; a number of 32 bits as the shortest decimal that is that number."""
        if name not in self._fields:
            return default
        value = self._fields[name].contents()
        return float(str(np.float32(value))) if isinstance(value, float) else value
