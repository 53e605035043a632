"""In which numbers a model's matrices are stored, read from the beginnings of its files."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anyformer import checkpoint, huggingface
from anyformer.checkpoint.few_bits import QUANTISED
from anyformer.engines.engine import EngineRefusedError
from anyformer.huggingface import gguf
from anyformer.huggingface.gguf.reader import opened, pieces_of
from anyformer.huggingface.registry import stored_format

WORDS = {"F32": "f32", "BF16": "bf16", "F16": "f16"}
_MOST = 100_000_000
"""Bytes of a header, as safetensors bounds it."""


def files_of(place: Path) -> list[Path]:
    """All files from which the model at `place` is read."""
    if place.is_file():
        return pieces_of(place)
    return sorted(path for path in checkpoint.newest(place).rglob("*") if path.is_file() and path.suffix != ".md")


def stored_form(place: Path) -> str:
    """`f32`, `bf16` or `f16`; of a GGUF file its own word, as `q4_0`. Of several that of the fewest bits.

    Raises `EngineRefusedError` for matrices in few bits of another form.
    """
    if gguf.is_gguf(place):
        return _form_in(place)
    directory = checkpoint.newest(place)
    if (directory / checkpoint.MANIFEST).is_file():
        files = [path for path in directory.glob("*.safetensors") if path.name.startswith("model")]
        few = (directory / QUANTISED).is_file()
    else:
        files = sorted(directory.glob("*.safetensors"))
        few = stored_format(huggingface.read_config(directory)) is not None
    kinds = {entry["dtype"] for path in files for entry in _matrices(path)}
    if few or not kinds <= WORDS.keys():
        raise EngineRefusedError("the weights are stored in few bits, and it has no format for these")
    return next((word for kind, word in reversed(WORDS.items()) if kind in kinds), "f32")


def _form_in(path: Path) -> str:
    """The form of most numbers of a GGUF file's matrices, but fp32 only where all are."""
    numbers = Counter[str]()
    for piece in pieces_of(path):
        for tensor in opened(piece).tensors:
            if len(tensor.shape) > 1:
                numbers[tensor.tensor_type.name.lower()] += int(tensor.n_elements)
    few = Counter({form: count for form, count in numbers.items() if form != "f32"})
    return (few or numbers).most_common(1)[0][0]


def _matrices(path: Path) -> Iterator[dict[str, Any]]:
    """What the header of a file of safetensors says of its matrices."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            table = json.loads(file.read(min(length, _MOST)))
        yield from (entry for entry in table.values() if len(entry.get("shape", ())) > 1)
    except (OSError, ValueError, AttributeError, struct.error) as error:
        raise EngineRefusedError(f"{path}: cannot be read ({error})") from None
