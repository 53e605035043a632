"""The files of a Hugging Face directory: tensors by name, one at a time, and never a pickle."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from anyformer.huggingface.config import read_table, shown
from anyformer.huggingface.errors import HuggingFaceError

INDEX, WHOLE = "model.safetensors.index.json", "model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Ending of names of tensors in the first years -> today's."""
SHARD = 5 * 10**9
"""Bytes of one file of an export."""


class Stored:
    """The tensors of a directory by name, each read from its file when needed.

    `base`: prefix that names in the files may lack; `older_names`: pattern in names of older files -> today's. `text_name`: of
    a composite, name in the files -> the text model's own, None for a tensor of a tower, which is left aside.
    """

    def __init__(
        self,
        directory: Path,
        base: str = "",
        older_names: Mapping[str, str] | None = None,
        text_name: Callable[[str], str | None] | None = None,
    ) -> None:
        files = _files(directory)
        self.directory = directory
        self.base = base
        own = {name: name if text_name is None else text_name(name) for name in files}
        self.stored = {_renamed(name, older_names or {}): file for file, name in own.items() if name is not None}
        self.files = {name: files[stored] for name, stored in self.stored.items()}
        self.aside = {name: files[name] for name, text in own.items() if text is None}
        """Name of each tensor of a tower -> its file."""

    def __contains__(self, name: str) -> bool:
        return self._known_as(name) in self.files

    def _known_as(self, name: str) -> str:
        """The name in the files, which may lack `base`."""
        bare = name.removeprefix(self.base)
        return name if name in self.files or bare not in self.files else bare

    @property
    def nbytes(self) -> int:
        """Bytes of the files."""
        return sum((self.directory / file).stat().st_size for file in set(self.files.values()))

    def tensor(self, name: str) -> Tensor:
        """One floating-point tensor, read from its file."""
        with self._file_of(name) as file:
            tensor: Tensor = file.get_tensor(self.stored[self._known_as(name)])
        if not tensor.is_floating_point():
            number = str(tensor.dtype).removeprefix("torch.")
            raise HuggingFaceError(f"{self.directory}: {name} is stored as {number}, and a weight is a floating-point number")
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, from the file's header."""
        with self._file_of(name) as file:
            return tuple(file.get_slice(self.stored[self._known_as(name)]).get_shape())

    def _file_of(self, name: str) -> safe_open:
        """The open file of a tensor; refuses a file that does not hold it."""
        known = self._known_as(name)
        if known not in self.files:
            raise HuggingFaceError(f"{self.directory}: has no tensor {name}")
        file = _opened(self.directory / self.files[known])
        if self.stored[known] not in file.keys():  # type: ignore[no-untyped-call]  # noqa: SIM118
            raise HuggingFaceError(f"{self.directory / self.files[known]}: {name} is not in it, although the index says so")
        return file

    def file_shape(self, name: str, file: str) -> tuple[int, ...]:
        """The shape of any tensor of a file, by its name there."""
        with _opened(self.directory / file) as opened:
            return tuple(opened.get_slice(name).get_shape())

    def as_it_is(self, name: str, file: str) -> Tensor:
        """Any tensor of a file, by its name there, of whatever type."""
        with _opened(self.directory / file) as opened:
            tensor: Tensor = opened.get_tensor(name)
        return tensor

    def unused(self, used: Iterable[str], ignored: Iterable[str]) -> list[str]:
        """Names that are not `used` and match no ignored pattern."""
        patterns = [re.compile(pattern) for pattern in ignored]
        left = self.files.keys() - {self._known_as(name) for name in used}
        return sorted(name for name in left if not any(pattern.fullmatch(name) for pattern in patterns))


def _renamed(name: str, older_names: Mapping[str, str]) -> str:
    """The name as transformers writes it today."""
    for pattern, today in older_names.items():
        name = re.sub(pattern, today, name)
    old = next((ending for ending in OLD if name.endswith(ending)), "")
    return name.removesuffix(old) + OLD[old] if old else name


def _files(directory: Path) -> Mapping[str, str]:
    """Name of each tensor -> its file."""
    index = directory / INDEX
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
    if (directory / WHOLE).is_file():
        with _opened(directory / WHOLE) as file:
            return dict.fromkeys(file.keys(), WHOLE)
    pickled = sorted(path.name for path in directory.glob("*") if path.suffix in PICKLED)
    if pickled:
        raise HuggingFaceError(
            f"{directory}: the weights are in {pickled[0]}, and unpickling can run anybody's code; save them as "
            f"safetensors with transformers' model.save_pretrained()"
        )
    raise HuggingFaceError(f"{directory}: has neither {WHOLE} nor {INDEX}")


def _opened(path: Path) -> safe_open:
    try:
        return safe_open(path, "pt")
    except (safetensors.SafetensorError, OSError) as error:
        raise HuggingFaceError(f"{path}: cannot be read as safetensors ({error})") from None


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a table of a Hugging Face directory."""
    path.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n", encoding="utf-8")


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
