"""Tensors on disk, each read when it is asked for: whole, or a part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from anyformer.checkpoint.manifest import CheckpointError
from anyformer.checkpoint.pieces import file_of, told_places
from anyformer.model.divided import extent_of, from_part, is_divided, part
from anyformer.operations import Extent
from anyformer.precision.finite import check_finite

_READ_AT_ONCE = 2**24
"""Bytes that are read before files are closed: while a file is open, its pages count as memory of the process."""


@dataclass
class _OpenFiles:
    """Safetensors files that stay open while little is read from them."""

    _open: dict[Path, Any] = field(default_factory=dict, init=False)
    _read: int = field(default=0, init=False)

    def opened(self, path: Path, ahead: int = 0) -> Any:
        """An open file, of which `ahead` bytes are about to be read."""
        if self._read > _READ_AT_ONCE:
            self.close()
        if path not in self._open:
            self._open[path] = safetensors.safe_open(path, framework="pt")
        self._read += ahead
        return self._open[path]

    def close(self) -> None:
        self._open.clear()
        self._read = 0


@dataclass(frozen=True)
class _Place:
    """A file with a piece of a tensor."""

    path: Path
    extent: Extent


class TensorsOnDisk(Mapping[str, Tensor]):
    """Tensors by name, whose `shapes` are known before any of them is read."""

    shapes: Mapping[str, tuple[int, ...]]

    def part(self, name: str, extent: Extent) -> Tensor:
        """A part of the tensor of a name."""
        raise NotImplementedError

    def type_of(self, name: str) -> torch.dtype:
        """The type of the tensor of a name, of which no number is read."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Tensor:
        return self.part(name, Extent.all_of(self.shapes[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


@dataclass(frozen=True)
class StoredTensors(TensorsOnDisk):
    """The tensors of a file, or of the shares of it that several processes wrote, by name; looking one up reads it whole.

    `path`: of the file, by which errors name it. `finite`: whether a value that is not finite is an error.
    """

    path: Path
    shapes: Mapping[str, tuple[int, ...]]
    places: Mapping[str, tuple[_Place, ...]]
    finite: bool = False
    _files: _OpenFiles = field(default_factory=_OpenFiles)

    @staticmethod
    def open(path: Path, finite: bool = False) -> StoredTensors:
        """The tensors of a file or of its shares, none of them read yet. Raises `CheckpointError`, which names a file that
        cannot be read, or a tensor of which pieces are missing."""
        shapes, places = dict[str, tuple[int, ...]](), dict[str, list[_Place]]()
        files = _OpenFiles()
        for each in _shares_of(path):
            with _reading(each):
                header = files.opened(each)
                told = told_places(header.metadata())
                for name in header.keys():  # noqa: SIM118
                    size = tuple(header.get_slice(name).get_shape())
                    start, shape = told.get(name, ((0,) * len(size), size))
                    if shapes.setdefault(name, shape) != shape or len(start) != len(shape) or len(size) != len(shape):
                        raise ValueError(f"{name}: a piece at {start} of {size} is none of a tensor of {shapes[name]}")
                    places.setdefault(name, []).append(_Place(each, Extent(start, size)))
            files.close()
        for name, shape in shapes.items():
            _check_covered(path, name, Extent.all_of(shape), [place.extent for place in places[name]])
        return StoredTensors(path, shapes, {name: tuple(each) for name, each in places.items()}, finite, files)

    @property
    def digest(self) -> str:
        """SHA-256 of every name, type, shape and value, which is the same however many processes wrote them."""
        found = hashlib.sha256()
        for name in sorted(self):
            tensor = self[name].contiguous()
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.flatten().view(torch.uint8).numpy().data)
        return found.hexdigest()

    def part(self, name: str, extent: Extent) -> Tensor:
        """A part of the tensor of a name. Raises `CheckpointError` if it cannot be read, or for a value that is not finite."""
        made: Tensor | None = None
        for place in self.places[name]:
            common = place.extent.common(extent)
            if common.count == 0 and extent.count:
                continue
            found = self._read(place, name, common)
            if common == extent:
                made = found
                break
            made = found.new_empty(extent.size) if made is None else made
            made[common.within(extent).slices] = found
        assert made is not None, "the pieces cover the tensor"
        if self.finite:
            check_finite(made, f"{self.path}: {name}", CheckpointError)
        return made

    def type_of(self, name: str) -> torch.dtype:
        place = self.places[name][0]
        return self._read(place, name, Extent(place.extent.start, (0,) * len(place.extent.size))).dtype

    def _read(self, place: _Place, name: str, extent: Extent) -> Tensor:
        with _reading(place.path):
            file = self._files.opened(place.path, ahead=extent.count * 4)
            if extent == place.extent:
                return file.get_tensor(name)  # type: ignore[no-any-return]
            # A copy, so that the pages of the file need not stay.
            return file.get_slice(name)[extent.within(place.extent).slices].clone()  # type: ignore[no-any-return]


def shapes_of(tensors: Mapping[str, Tensor]) -> Mapping[str, tuple[int, ...]]:
    """The shapes of tensors by name, without reading those on disk."""
    return tensors.shapes if isinstance(tensors, TensorsOnDisk) else {name: tuple(x.shape) for name, x in tensors.items()}


def dtype_of(tensors: Mapping[str, Tensor], name: str) -> torch.dtype:
    """The type of the tensor of a name, without reading one on disk."""
    return tensors.type_of(name) if isinstance(tensors, TensorsOnDisk) else tensors[name].dtype


def values_like(tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    """The tensor of a name, on the device of `like`, and divided as that is if it has its shape.

    Of tensors on disk a process then reads its part alone.
    """
    if not is_divided(like) or shapes_of(tensors)[name] != tuple(like.shape):
        return tensors[name].to(like.device)
    if isinstance(tensors, TensorsOnDisk):
        return from_part(tensors.part(name, extent_of(like)), like)
    return part(tensors[name], like)


@torch.no_grad()
def copy_stored(tensors: Mapping[str, Tensor], name: str, into: Tensor) -> None:
    """Copy the tensor of a name, or this process's part of it, into one that may be divided; see `values_like`."""
    into.copy_(values_like(tensors, name, into))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Within, what safetensors and the system raise becomes a `CheckpointError` that names the file."""
    try:
        yield
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error})") from None


def _shares_of(path: Path) -> list[Path]:
    """A file, or the shares of it."""
    shares = sorted(each for each in path.parent.glob("*-share-*") if file_of(each.name) == path.name)
    return shares if shares and not path.exists() else [path]


def _check_covered(path: Path, name: str, whole: Extent, extents: list[Extent]) -> None:
    """Raise `CheckpointError` unless pieces are a grid that covers a tensor, each element once."""
    cells = 1
    covered = len({extent.start for extent in extents}) == len(extents)
    for dim, size in enumerate(whole.size):
        sides = {(extent.start[dim], extent.size[dim]) for extent in extents}
        ends = [0, *(start + length for start, length in sorted(sides))]
        covered = covered and [start for start, _ in sorted(sides)] == ends[:-1] and ends[-1] == size
        cells *= len(sides)
    if not covered or cells != len(extents):
        raise CheckpointError(f"{path}: {name}: its {len(extents)} pieces are not the tensor of shape {whole.size}")
