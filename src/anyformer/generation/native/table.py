"""A step as whole numbers: operations in their order, with places in memory for tensors (`step.cpp` computes it)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.step_memory import StepMemory
from anyformer.generation.native.widened import as_stored

KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.int64: 2, torch.bool: 3, torch.int32: 4, torch.int8: 5, torch.uint8: 6}
"""Numbers that tensors may have, as `Kind` of `words.h` counts them."""
MOST_SIZES = 6
"""Sizes of a loop, after those that can be walked as one are joined."""
WORD = 4
"""Bytes to which numbers of fewer are spread, so that all memory begins at a multiple of it: rounding up would make a place no
straight line of the number of visible slots."""
OPERATIONS = ("elementwise", "reduction", "rows", "indexed", "product", "matrix product", "attention", "chosen product",
              "order")  # fmt: skip


class UnknownError(Exception):
    """Something of a step is no operation of a table; the message names it."""


@dataclass(eq=False, slots=True)
class Region:
    """Bytes that some tensors share. `base`: what holds them; None for the step's own, which begin anew in every step."""

    size: int
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """A place in memory."""

    memory: Region
    offset: int = 0


NOWHERE = Region(0)
Word = int | Location
Layout = Sequence[int]
"""Sizes, or strides."""


@dataclass(frozen=True, eq=False)
class Table:
    """The words of a step, in int64, and the shape and type of its result.

    `starts`: the word with which each operation begins. `bases`: what words name by number behind the step's own memory and its
    result: the number of a given or a kept tensor, or a tensor that stays as it is. `sizes`: the bytes of each memory of the
    step's own; `owned`: the words that are places in one of them, from its first byte on, and the number of that.
    """

    words: Tensor
    starts: tuple[int, ...]
    bases: tuple[tuple[str, int] | Tensor, ...]
    sizes: tuple[int, ...]
    owned: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    memory: StepMemory

    def planned(self) -> Tensor:
        """The words with a place for each of the step's own memories."""
        words = self.words.clone()
        words[self.memory.positions] += self.memory.starts
        return words


@dataclass
class StepWriter:
    """Operations as they are put down; `finished` gives their memory places."""

    operations: list[list[Word]] = field(default_factory=list)
    bases: list[tuple[str, int] | Tensor] = field(default_factory=list)
    _memories: dict[int, Region] = field(default_factory=dict)
    _constants: dict[tuple[type, float], Location] = field(default_factory=dict)
    _starts: dict[int, int] = field(default_factory=dict)
    _waiting: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    _narrow: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def hold(self, base: tuple[str, int] | Tensor, tensor: Tensor) -> None:
        """A tensor that is there before the step: by its name in `bases`, or itself."""
        storage = tensor.untyped_storage().data_ptr()
        if storage not in self._memories:
            self._starts[storage] = tensor.data_ptr() - storage
            self._memories[storage] = Region(tensor.untyped_storage().nbytes(), self._base(base))

    def place(self, tensor: Tensor) -> Location:
        """Where a tensor's first number lies."""
        if not plain(tensor):
            raise UnknownError(f"a tensor of the class {type(tensor).__name__}")
        storage = tensor.untyped_storage().data_ptr()
        self._copy(storage)
        if tensor.numel() == 0:
            return Location(self._memories.get(storage, NOWHERE))  # no number of it is read; torch gives it any address
        if storage not in self._memories:
            raise UnknownError("a tensor that nothing made")
        return Location(self._memories[storage], tensor.data_ptr() - storage - self._starts.get(storage, 0))

    def strided(self, tensor: Tensor) -> list[Word]:
        """The words for a tensor: its place, what numbers it has, and the bytes from one to the next along each size."""
        return [self.place(tensor), kind(tensor), *strides_of(tensor)]

    def make(self, tensor: Tensor) -> None:
        """A tensor that an operation makes."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._memories:
            self._memories[storage.data_ptr()] = Region(storage.nbytes() * max(1, WORD // tensor.element_size()))

    def widen(self, copy: Tensor, source: Tensor) -> None:
        """A copy in fp32 of numbers in bf16, which is made when something needs it: some read those instead, see `stored`."""
        self.make(copy)
        self._waiting[copy.untyped_storage().data_ptr()] = copy, source

    def narrow(self, weight: Tensor, half: Tensor) -> None:
        """A weight in fp32 and the same numbers in bf16: some read those instead, see `stored`."""
        self.hold(half, half)
        self._narrow[weight.untyped_storage().data_ptr()] = weight, half

    def stored(self, tensor: Tensor) -> Tensor:
        """What to read instead of a tensor of fp32, in whatever type: itself, or the numbers of which it is a copy."""
        if not plain(tensor):
            return tensor
        storage = tensor.untyped_storage().data_ptr()
        pair = self._waiting.get(storage) or self._narrow.get(storage)
        found = None if pair is None else as_stored(tensor, *pair)
        return tensor if found is None else found

    def change(self, tensor: Tensor) -> None:
        """Make the copies that are to have what a tensor holds now."""
        goal = tensor.untyped_storage().data_ptr()
        for storage, (_, source) in list(self._waiting.items()):
            if goal in (storage, source.untyped_storage().data_ptr()):
                self._copy(storage)

    def _copy(self, storage: int) -> None:
        if storage in self._waiting:
            copy, source = self._waiting.pop(storage)
            given = [(self.place(each), each) for each in (copy, source)]
            self.elementwise(0, tuple(copy.shape), given, whole=False)

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor's memory is known."""
        return tensor.untyped_storage().data_ptr() in self._memories

    def opaque(self, tensor: Tensor, address: int) -> Location:
        """The numbers of a matrix in an order of a library's own, which lie at an address as long as it lives."""
        if address not in self._memories:
            self._memories[address] = Region(0, self._base(tensor))
        return Location(self._memories[address])

    def constant(self, value: float, *, whole: bool) -> Location:
        """A number."""
        if (int if whole else float, value) not in self._constants:
            tensor = torch.tensor([value], dtype=torch.int64 if whole else torch.float32)
            self.hold(tensor, tensor)
            self._constants[int if whole else float, value] = self.place(tensor)
        return self._constants[int if whole else float, value]

    def put(self, operation: str, *words: Word | Iterable[Word]) -> None:
        """One operation."""
        flat: list[Word] = [OPERATIONS.index(operation)]
        for each in words:
            flat += [each] if isinstance(each, int | Location) else each
        self.operations.append(flat)

    def give(self, result: Tensor) -> None:
        """The last operation, which copies the result."""
        goal, source = Region(result.nbytes, 1), self.stored(result)
        side_by_side = torch.empty(result.shape, dtype=result.dtype, device="meta")
        self.elementwise(0, tuple(result.shape), [(Location(goal), side_by_side), (self.place(source), source)], whole=False)

    def finished(self, result: Tensor) -> Table:
        """The table of all operations, which give the result."""
        words, starts, numbers, owned = list[int](), list[int](), dict[Region, int](), list[tuple[int, int]]()
        for operation in self.operations:
            starts.append(len(words))
            for word in operation:
                match word:
                    case int():
                        words.append(word)
                    case Location(memory, offset):
                        if memory.base is None:
                            owned.append((len(words) + 1, numbers.setdefault(memory, len(numbers))))
                        words += (memory.base or 0, offset)
        sizes = tuple(memory.size for memory in numbers)
        return Table(
            torch.tensor(words), tuple(starts), tuple(self.bases), sizes, tuple(owned), tuple(result.shape), result.dtype,
            StepMemory.of(starts, owned, sizes),
        )  # fmt: skip

    def elementwise(
        self, function: int, shape: Layout, tensors: Sequence[tuple[Location, Tensor | None]], *, whole: bool
    ) -> None:
        """A function of the numbers at the same place of tensors; the first is the result. None: one number for all places."""
        kinds = [(2 if whole else 0) if tensor is None else kind(tensor) for _, tensor in tensors]
        each = [[0] * len(shape) if tensor is None else spread(tensor, shape) for _, tensor in tensors]
        sizes, strides = joined(shape, each)
        words: list[Word] = [function, int(whole), len(sizes), len(tensors) - 1, *sizes]
        for (place, _), number, own in zip(tensors, kinds, strides, strict=True):
            words += [place, number, *own]
        self.put("elementwise", words)

    def _base(self, base: tuple[str, int] | Tensor) -> int:
        self.bases.append(base)
        return len(self.bases) + 1


def plain(tensor: Any) -> bool:
    """Whether it is a tensor whose numbers lie in memory by its strides."""
    return (
        isinstance(tensor, Tensor)
        and tensor.layout is not None
        and not tensor.is_mkldnn
        and type(tensor).__name__ in ("Tensor", "Parameter")
    )


def kind(tensor: Tensor) -> int:
    """The word for what numbers a tensor has."""
    if tensor.dtype not in KINDS:
        raise UnknownError(f"numbers of {tensor.dtype}")
    return KINDS[tensor.dtype]


def strides_of(tensor: Tensor) -> list[int]:
    """The bytes from one number to the next, along each size."""
    return [stride * tensor.element_size() for stride in tensor.stride()]


def spread(tensor: Tensor, shape: Layout) -> list[int]:
    """As `strides_of`, of a tensor that is repeated to a shape."""
    missing = len(shape) - tensor.dim()
    own = [0 if size == 1 else stride for size, stride in zip(tensor.shape, strides_of(tensor), strict=True)]
    return [0] * missing + own


def joined(shape: Layout, strides: Sequence[Layout], apart: int = 0) -> tuple[list[int], list[list[int]]]:
    """A loop over as few sizes as give the same walk, and the strides of every tensor in it; the last `apart` stay."""
    sizes, kept = list[int](), [list[int]() for _ in strides]
    for d, size in enumerate(shape):
        stays = d >= len(shape) - apart
        if size == 1 and not stays:
            continue
        follows = bool(sizes) and not stays and d <= len(shape) - apart
        if follows and all(own[-1] == size * each[d] for own, each in zip(kept, strides, strict=True)):
            sizes[-1] *= size
            for own, each in zip(kept, strides, strict=True):
                own[-1] = each[d]
        else:
            sizes.append(size)
            for own, each in zip(kept, strides, strict=True):
                own.append(each[d])
    if not sizes:
        sizes, kept = [1], [[0] for _ in strides]
    if len(sizes) > MOST_SIZES:
        raise UnknownError(f"a loop over {len(sizes)} sizes")
    return sizes, kept


def float_word(value: float) -> int:
    """A number in fp32 as a word."""
    (word,) = struct.unpack("<i", struct.pack("<f", value))
    return int(word)
