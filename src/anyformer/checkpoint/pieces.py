"""Pieces of tensors: of a tensor that several processes divide, each writes what it holds, and where that stands.

Files are safetensors. One with pieces says in its header where each begins, as torch.distributed.checkpoint's
`HuggingFaceStorageWriter` does (`DCP_SHARDING_INFO`), so that torch's own reader takes them too; the shape of the whole tensor
stands beside, by which a piece that is not there is noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from anyformer.operations import Extent

_HEADER, _START, _WHOLE = "DCP_SHARDING_INFO", "saved_offsets", "shape"
_SHARE = re.compile(r"(?P<stem>.+)-share-(?P<number>\d{5})-of-\d{5}\.safetensors\Z")

Take = Callable[[Tensor], Tensor]
"""How a checkpoint takes a tensor: itself, or a copy that later updates leave alone; on the CPU and contiguous."""


def shared(tensor: Tensor) -> Tensor:
    """The tensor itself where it is on the CPU and contiguous."""
    return tensor.detach().cpu().contiguous()


def copied(tensor: Tensor) -> Tensor:
    """A copy on the CPU."""
    return tensor.detach().to("cpu", copy=True).contiguous()


@dataclass(frozen=True)
class Piece:
    """Values, and where they stand in their tensor, which has `shape` as a whole."""

    values: Tensor
    extent: Extent
    shape: tuple[int, ...]

    @staticmethod
    def whole(values: Tensor) -> Piece:
        shape = tuple(values.shape)
        return Piece(values, Extent.all_of(shape), shape)


Pick = Callable[[str, str, Tensor], Piece | None]
"""What this process writes, into a file, of the tensor of a name: None where another process writes it."""


def whole_by(take: Take) -> Pick:
    """The pick of a process that writes every tensor whole."""
    return lambda file, name, tensor: Piece.whole(take(tensor))


def share_name(name: str, number: int, of: int) -> str:
    """The name of process `number`'s share (from 0) of a file: `model-share-00001-of-00004.safetensors`."""
    return f"{name.removesuffix('.safetensors')}-share-{number + 1:05}-of-{of:05}.safetensors"


def file_of(name: str) -> str:
    """The name of the file that a file is a share of; its own name if it is none."""
    found = _SHARE.match(name)
    return f"{found['stem']}.safetensors" if found else name


def writer_of(name: str) -> int:
    """The number, from 0, of the process that wrote a file; the first one wrote what is no share."""
    found = _SHARE.match(name)
    return int(found["number"]) - 1 if found else 0


def write_pieces(pieces: Mapping[str, Piece], path: Path) -> None:
    """Write pieces of tensors, and where they stand, into one file."""
    told = {name: {_START: piece.extent.start, _WHOLE: piece.shape} for name, piece in sorted(pieces.items())}
    # No second entry beside it: safetensors writes several in an order that differs from process to process.
    save_file({name: piece.values for name, piece in pieces.items()}, path, {_HEADER: json.dumps(told)})


def told_places(header: Mapping[str, str] | None) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of a file's pieces by name, where each begins, and the shape of its tensor; nothing of a file of whole tensors.

    Raises `ValueError` for a header that says something else.
    """
    told = (header or {}).get(_HEADER)
    if told is None:
        return {}
    try:
        return {str(name): (_indices(each[_START]), _indices(each[_WHOLE])) for name, each in json.loads(told).items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"its {_HEADER} does not say where the tensors begin ({error!r})") from None


def _indices(numbers: list[int]) -> tuple[int, ...]:
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise TypeError(f"{numbers} should be whole numbers")
    return tuple(numbers)
