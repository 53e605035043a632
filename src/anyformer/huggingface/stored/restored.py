"""The tensors of a directory as plain weights, whatever format holds them: each is joined and restored when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.formats import StoredFormat
from anyformer.huggingface.stored.scheme import PackedWeight, Shape, StoredTensor, bare

NONE: Mapping[str, PackedWeight] = {}


@dataclass(frozen=True)
class Held:
    """One way in which a directory holds weights: `tensors` of them, in `nbytes`, scales included."""

    name: str
    tensors: int
    nbytes: int
    loaded: int
    """Bytes of them as they are loaded."""
    restored: bool
    """Whether they are stored in few bits."""


def held_in(ways: Mapping[tuple[str, bool], Sequence[tuple[int, int]]]) -> tuple[Held, ...]:
    """From (way, whether in few bits) -> (bytes stored, bytes loaded) of each weight; the largest first."""
    made = [
        Held(way, len(each), sum(stored for stored, _ in each), sum(loaded for _, loaded in each), restored)
        for (way, restored), each in ways.items()
    ]
    return tuple(sorted(made, key=lambda held: -held.nbytes))


class RestoredWeights:
    """Plain tensors by name. A weight in few bits becomes `dtype`, each number computed in fp32 and rounded once."""

    def __init__(self, files: TensorFiles, format: StoredFormat | None = None, dtype: torch.dtype = torch.bfloat16) -> None:
        self.files, self.dtype = files, dtype
        found = None if format is None else format.find(files)
        self.packed = NONE if found is None else found.packed
        if format is not None and not self.packed:
            raise HuggingFaceError(
                f"{files.directory}: the configuration names {type(format).__name__}, and no tensor is stored in it; where the "
                f"weights are plain numbers, delete quantization_config from config.json"
            )
        self.aside = () if found is None else found.aside
        used = {name for packed in self.packed.values() for name in packed.parts.values()}
        left = files.names.keys() - used - set(() if found is None else (*found.aside, *found.read))
        twice = sorted(left & self.packed.keys())
        if twice:
            raise HuggingFaceError(f"{files.path(twice[0])}: {twice[0]} is there in full, and once more in few bits")
        self.plain = left

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Name of each plain tensor -> the file of the first tensor that holds it, in the order of the files."""
        first = {next(iter(packed.parts.values())): name for name, packed in self.packed.items()}
        return {first.get(name, name): file for name, file in self.files.names.items() if name in self.plain or name in first}

    def shape(self, name: str) -> Shape:
        packed = self.packed.get(name)
        return self.files.shape(name) if packed is None else self._checked(name, packed)

    def type_of(self, name: str) -> torch.dtype:
        return self.dtype if name in self.packed else self.files.dtype(name)

    def tensor(self, name: str) -> Tensor:
        """One weight, as plain floating-point numbers."""
        packed = self.packed.get(name)
        if packed is None:
            return self.files.tensor(name)
        whole = self._checked(name, packed)
        try:
            return packed.scheme.restored(self._parts(packed), whole, self.dtype)
        except HuggingFaceError:
            raise
        except (ValueError, RuntimeError, IndexError) as error:
            raise self._unreadable(name, packed, error) from None

    def kept(self, name: str) -> Tensor:
        """One tensor bit for bit; of a weight in few bits the numbers that it stands for."""
        return self.tensor(name) if name in self.packed else self.files.raw(name)

    def held(self) -> tuple[Held, ...]:
        """How the directory holds its weights: each way with the bytes of it, the largest first."""
        ways: dict[tuple[str, bool], list[tuple[int, int]]] = {}
        for name, packed in self.packed.items():
            nbytes = sum(map(self.files.bytes_of, packed.parts.values()))
            ways.setdefault((packed.scheme.name, True), []).append((nbytes, prod(self.shape(name)) * self.dtype.itemsize))
        for name in self.plain:
            nbytes = self.files.bytes_of(name)
            ways.setdefault((str(self.files.dtype(name)).removeprefix("torch."), False), []).append((nbytes, nbytes))
        for name in self.aside:
            ways.setdefault(("left aside", False), []).append((self.files.bytes_of(name), 0))
        return held_in(ways)

    def _parts(self, packed: PackedWeight) -> dict[str, StoredTensor]:
        return {
            part: StoredTensor(stored, *self.files.header(stored), read=lambda stored=stored: self.files.raw(stored))  # type: ignore[misc]
            for part, stored in packed.parts.items()
        }

    def _checked(self, name: str, packed: PackedWeight) -> Shape:
        """The shape of a weight, where all tensors that hold it fit it."""
        parts = self._parts(packed)
        try:
            whole = packed.scheme.whole(parts)
            planes = packed.scheme.planes(whole)
        except HuggingFaceError:
            raise
        except (ValueError, RuntimeError) as error:
            raise self._unreadable(name, packed, error) from None
        for part, (shape, _) in planes.items():
            if part not in parts:
                raise self._unreadable(name, packed, f"its {part} are missing")
            if bare(parts[part].shape) != bare(shape):
                raise HuggingFaceError(
                    f"{self.files.path(parts[part].name)}: {parts[part].name} has the shape {parts[part].shape}, and {name} of "
                    f"shape {whole} in {packed.scheme.name} needs {shape}"
                )
        return whole

    def _unreadable(self, name: str, packed: PackedWeight, why: object) -> HuggingFaceError:
        stored = next(iter(packed.parts.values()))
        return HuggingFaceError(
            f"{self.files.path(stored)}: {name} cannot be restored from {' + '.join(packed.parts.values())} as "
            f"{packed.scheme.name}: {why}"
        )
