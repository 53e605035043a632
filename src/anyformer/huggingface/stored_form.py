"""How a directory or a GGUF file stores its weights in few bits, and what loading makes of them, from headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from os.path import isdir, isfile  # which no name is too long for
from pathlib import Path

from anyformer.huggingface.config import OWN
from anyformer.huggingface.convert import opened
from anyformer.huggingface.stored import Held


@dataclass(frozen=True)
class StoredForm:
    """Every way in which weights are stored, the largest first; `dtype`: what those in few bits become."""

    ways: tuple[Held, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as they are stored, scales included."""
        return sum(way.nbytes for way in self.ways)

    @property
    def loaded(self) -> int:
        """Bytes of all weights once they are loaded."""
        return sum(way.loaded for way in self.ways)


def form_of(path: str | Path) -> StoredForm | None:
    """The form of a directory of Hugging Face's layout or a GGUF file; None for anything else, and for plain numbers.

    Raises `HuggingFaceError` for files that are damaged or in a format that is not read.
    """
    path = Path(path)
    directory = isdir(path) and isfile(path / "config.json") and not any(isfile(path / name) for name in OWN)
    if not (directory and any(path.glob("*.safetensors"))) and not (path.suffix == ".gguf" and isfile(path)):
        return None
    _, source = opened(path)
    ways = source.held()
    return StoredForm(ways, str(source.dtype).removeprefix("torch.")) if any(way.restored for way in ways) else None
