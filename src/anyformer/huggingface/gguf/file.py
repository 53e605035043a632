"""A GGUF file: its metadata, and plain tensors by the names of Hugging Face's layout. Read with the package `gguf`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.declared import stored_shapes
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.architectures import form_of
from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.lines import LATER, Words
from anyformer.huggingface.gguf.names import GgufRule, depth_of, gguf_rules, placed
from anyformer.huggingface.gguf.reader import DAMAGED, SUFFIX, library, opened, pieces_of
from anyformer.huggingface.gguf.rotary import FACTORS, LONG, SHORT
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.registry import read_architecture
from anyformer.huggingface.rules import SAME
from anyformer.huggingface.stored import Held, filled, held_in

NEVER_READ = (FACTORS, LONG, SHORT)
"""Tensors that the configuration has: as settings, or as lists."""
PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types of tensors of plain numbers."""
SPLIT = "split"
"""What keys of files in several pieces begin with."""


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
        shapes = {name: shape_of(tensor) for name, tensor in self._tensors.items()}
        self.keys = GgufMetadata(str(path), architecture, metadata, shapes, self._numbers)
        form = form_of(self.keys)
        try:
            self._words = form.read(self.keys)
        except (KeyError, TypeError, ZeroDivisionError, StopIteration, ValueError) as error:
            if isinstance(error, HuggingFaceError):
                raise
            raise HuggingFaceError(f"{path}: its metadata or tensors are incomplete ({error!r})") from None
        self.dtype = dtype or self._usual()
        self._shapes, rules = self._theirs(form, self._words)
        self._places = placed(rules, self._tensors)
        known = {name for rule, _ in self._places.values() for name in rule.stored} | set(NEVER_READ)
        depth, later = self.keys("block_count"), self.keys(LATER, 0)
        known |= {name for name in self._tensors for layer in range(depth - later, depth) if name.startswith(f"blk.{layer}.")}
        self._odd = {name: tensor for name, tensor in self._tensors.items() if name not in known}
        """Tensors without a place."""
        self.names: Mapping[str, str] = dict.fromkeys((*self._places, *self._odd), path.name)

    @property
    def config(self) -> Config:
        """The configuration that the metadata amounts to."""
        return Config(self._words, str(self.path))

    def _theirs(self, form: GgufForm, words: Words) -> tuple[Mapping[str, tuple[int, ...]], Sequence[GgufRule]]:
        """The tensors of Hugging Face's layout that the configuration asks for, an untied head among them, and their rules."""
        architecture, family = read_architecture(Config(words, str(self.path)))
        if architecture.head is not None and architecture.head.may_be_tied:
            architecture = change(architecture, "head.tied", False)
        shapes = stored_shapes(architecture, family)
        return shapes, gguf_rules(form, words, depth_of(architecture), shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self._odd:
            return shape_of(self._odd[name])
        rule, number = self._places[name]
        files = [shape_of(self._tensors[stored]) for stored in rule.stored]
        empty = [torch.empty(shape[1:] if rule.stacked else shape, device="meta") for shape in files]
        return tuple(self._changed(rule, empty)[0 if rule.stacked else number].shape)

    def type_of(self, name: str) -> torch.dtype:
        return self.dtype

    def tensor(self, name: str) -> Tensor:
        """One weight, each number computed in fp32 and rounded once."""
        if name in self._odd:
            return self._restored(self._odd[name], None, self.dtype)
        rule, number = self._places[name]
        expert = number if rule.stacked else None
        if rule.stacked and number >= self.keys.shapes[rule.stored[0]][0]:
            raise HuggingFaceError(
                f"{self.path}: {rule.stored[0]} has {self.keys.shapes[rule.stored[0]][0]} experts, and the metadata says "
                f"{len(rule.theirs)}"
            )
        plain = rule.op == SAME
        files = [self._restored(self._tensors[each], expert, self.dtype if plain else torch.float32) for each in rule.stored]
        return files[0] if plain else self._changed(rule, files)[0 if rule.stacked else number].to(self.dtype)

    def kept(self, name: str) -> Tensor:
        """As `tensor`: nothing in a file of this layout is written again as it is."""
        return self.tensor(name)

    def _changed(self, rule: GgufRule, files: list[Tensor]) -> list[Tensor]:
        """Tensors of the file without what its layout does to them."""
        try:
            return rule.op.read(files, [self._shapes[name] for name in rule.theirs])
        except (RuntimeError, TypeError, ZeroDivisionError) as error:
            raise HuggingFaceError(
                f"{self.path}: {rule.stored[0]} of shape {tuple(files[0].shape)} does not fit the metadata ({error})"
            ) from None

    def held(self) -> tuple[Held, ...]:
        """How the file holds its weights: each type with its bytes, the largest first."""
        ways: dict[tuple[str, bool], list[tuple[int, int]]] = {}
        for name, tensor in self._tensors.items():
            kind, loaded = tensor.tensor_type.name, 0 if name in NEVER_READ else int(tensor.n_elements) * self.dtype.itemsize
            ways.setdefault((f"{kind} of GGUF", kind not in PLAIN), []).append((int(tensor.n_bytes), loaded))
        return held_in(ways)

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
