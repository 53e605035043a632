"""The tensors of a Hugging Face directory by the names of today, one at a time; and files of an export."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Renaming
from anyformer.huggingface.stored import INDEX, WHOLE, Held, RestoredWeights, TensorFiles
from anyformer.precision.finite import check_finite

OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Ending of names of tensors in the first years -> today's."""
SHARD = 5 * 10**9
"""Bytes of one file of an export."""


class WeightSource(Protocol):
    """Plain tensors by name, wherever they come from and however they are stored there."""

    @property
    def names(self) -> Mapping[str, str]:
        """Name of each tensor -> the file that has it."""

    @property
    def dtype(self) -> torch.dtype:
        """What weights in few bits become."""

    @property
    def aside(self) -> Sequence[str]:
        """Names of scales that no weight needs, which are not read."""

    def held(self) -> tuple[Held, ...]:
        """Every way in which weights are stored, the largest first."""

    def tensor(self, name: str) -> Tensor:
        """One weight, as floating-point numbers."""

    def kept(self, name: str) -> Tensor:
        """One tensor bit for bit; of a weight in few bits the numbers that it stands for."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight, from the file's header."""

    def type_of(self, name: str) -> torch.dtype:
        """The type of a weight once it is read, from the file's header."""


class Stored:
    """The tensors of a directory by name, each read from its file when needed.

    `base`: prefix that names in the files may lack, or have beside those that are asked for; `older_names`: pattern in names of
    older files -> today's. `text_name`: of a composite, name in the files -> the text model's own, None for a tensor of a
    tower, which is left aside. `source`: by default the safetensors of the directory, none of them in few bits. `stand_ins`:
    name of a tensor that may be absent -> the names of what stands in its place.
    """

    def __init__(
        self,
        directory: Path,
        base: str = "",
        older_names: Mapping[str, Renaming] | None = None,
        text_name: Callable[[str], str | None] | None = None,
        source: WeightSource | None = None,
        stand_ins: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.directory = directory
        self.base = base
        self.source = source or RestoredWeights(TensorFiles(directory))
        names = self.source.names
        own = {name: name if text_name is None else text_name(name) for name in names}
        self.stored = {_renamed(name, older_names or {}): file for file, name in own.items() if name is not None}
        self.files = {name: names[stored] for name, stored in self.stored.items()}
        self.aside = {name: names[name] for name, text in own.items() if text is None}
        """Name of each tensor of a tower -> its file."""
        self.stand_ins = stand_ins or {}
        self._sound: set[str] = set()
        """Names of tensors, in the files, that were found finite."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.known_as(name) in self.files

    def known_as(self, name: str) -> str:
        """The name in the files, which may lack `base` or have it."""
        others = (name.removeprefix(self.base), self.base + name)
        found = next((known for known in (name, *others) if known in self.files), None)
        return found or next(iter(self._standing_in(name)), name)

    def _standing_in(self, name: str) -> list[str]:
        """The names in the files of what holds a tensor that they lack."""
        known = (self.known_as(other) for other in self.stand_ins.get(name, ()))
        return [other for other in known if other in self.files]

    def tensor(self, name: str) -> Tensor:
        """One floating-point tensor, read from its file; refuses several in its place that differ."""
        own = self._in_the_files(name)
        tensor = self._checked(own, self.source.tensor(own))
        first, *more = self._standing_in(name) if self.known_as(name) in self._standing_in(name) else [name]
        for other in more:
            if not torch.equal(tensor, self.source.tensor(self.stored[other])):
                raise HuggingFaceError(
                    f"{self.directory}: has no tensor {name}, and {first} and {other}, which stand in its place, differ: keep "
                    f"the one that is meant"
                )
        return tensor

    def kept(self, name: str) -> Tensor:
        """One tensor bit for bit, of any type."""
        return self.carried(self._in_the_files(name))

    def carried(self, own: str) -> Tensor:
        """One tensor bit for bit, by its name in the files, which may be one of a tower."""
        return self._checked(own, self.source.kept(own))

    def _checked(self, own: str, tensor: Tensor) -> Tensor:
        """A tensor that was read; refuses one whose numbers are not finite, by its name in the files."""
        if own not in self._sound:
            check_finite(tensor, f"{self.directory / self.source.names[own]}: {own}", HuggingFaceError)
            self._sound.add(own)
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, from the file's header."""
        return self.source.shape(self._in_the_files(name))

    def type_of(self, name: str) -> torch.dtype:
        """The type of a tensor once it is read, from the file's header."""
        return self.source.type_of(self._in_the_files(name))

    def _in_the_files(self, name: str) -> str:
        known = self.known_as(name)
        if known not in self.files:
            raise HuggingFaceError(f"{self.directory}: has no tensor {name}")
        return self.stored[known]

    def unused(self, used: Iterable[str], ignored: Iterable[str]) -> list[str]:
        """Names that are not `used` and match no ignored pattern."""
        patterns = [re.compile(pattern) for pattern in ignored]
        left = self.files.keys() - {self.known_as(name) for name in used}
        return sorted(name for name in left if not any(pattern.fullmatch(name) for pattern in patterns))


def _renamed(name: str, older_names: Mapping[str, Renaming]) -> str:
    """The name as transformers writes it today."""
    for pattern, now in older_names.items():
        name = re.sub(pattern, now, name)
    return today(name)


def today(name: str) -> str:
    """The name with today's ending."""
    old = next((ending for ending in OLD if name.endswith(ending)), "")
    return name.removesuffix(old) + OLD[old] if old else name


def json_text(table: Mapping[str, Any]) -> str:
    """A table as a file of a Hugging Face directory."""
    return json.dumps(table, indent=2, sort_keys=True) + "\n"


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a table of a Hugging Face directory."""
    path.write_text(json_text(table), encoding="utf-8")


def write_shards(directory: Path, tensors: Iterator[tuple[str, Tensor]], limit: int = SHARD) -> None:
    """Write tensors in order into files of at most `limit` bytes (a larger tensor has its own), with an index if several."""
    shards: list[dict[str, str]] = []
    current: dict[str, Tensor] = {}
    size = total = 0

    def flush() -> None:
        name = f"shard-{len(shards):05d}.safetensors"
        save_file(current, directory / name, metadata={"format": "pt"})
        shards.append(dict.fromkeys(current, name))
        current.clear()

    for name, tensor in tensors:
        if current and size + tensor.nbytes > limit:
            flush()
            size = 0
        current[name] = tensor
        size, total = size + tensor.nbytes, total + tensor.nbytes
    flush()
    if len(shards) == 1:
        (directory / "shard-00000.safetensors").rename(directory / WHOLE)
        return
    table: dict[str, str] = {}
    for number, shard in enumerate(shards):
        final = f"model-{number + 1:05d}-of-{len(shards):05d}.safetensors"
        (directory / f"shard-{number:05d}.safetensors").rename(directory / final)
        table |= dict.fromkeys(shard, final)
    index = {"metadata": {"total_size": total}, "weight_map": table}
    (directory / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
