"""Keys of a GGUF file's metadata: those that were read, and those that are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from anyformer.huggingface.config import REQUIRED, shown
from anyformer.huggingface.errors import HuggingFaceError


@dataclass
class GgufMetadata:
    """Metadata of one architecture, without its prefix, and the shapes of the file's tensors."""

    where: str
    architecture: str
    table: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    values: Callable[[str], list[float]]
    """The numbers of a tensor by its name."""
    read: set[str] = field(default_factory=set)

    def __call__(self, name: str, default: Any = REQUIRED) -> Any:
        """The value of a key; its default where it is absent, without one an error."""
        self.read.add(name)
        if name not in self.table and default is REQUIRED:
            raise HuggingFaceError(f"{self.where}: has no {self.architecture}.{name} in its metadata")
        return self.table.get(name, default)

    def expect(self, name: str, *values: Any) -> None:
        """Refuse any value of a key but these, or its absence."""
        got = self(name, values[0])
        if got not in values:
            allowed = " or ".join(map(shown, values))
            raise HuggingFaceError(
                f"{self.where}: {self.architecture}.{name} = {shown(got)} is not read here, only {allowed}; "
                f"take the checkpoint in Hugging Face's layout"
            )

    def finish(self, inert: Iterable[str]) -> None:
        """Refuse keys that were not read and are not known to change nothing."""
        unknown = sorted(self.table.keys() - self.read - set(inert))
        if unknown:
            listed = ", ".join(f"{name} = {shown(self.table[name])}" for name in unknown)
            raise HuggingFaceError(
                f"{self.where}: {self.architecture} has keys that are not known here, so the model might compute something "
                f"else: {listed}; take the checkpoint in Hugging Face's layout"
            )


class GgufKeys:
    """Keys to write under one architecture's prefix, in order, and the tensors that no weight is: factors of rotation."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.table: dict[str, Any] = {}
        self.tensors: dict[str, Tensor] = {}

    def put(self, name: str, value: Any) -> None:
        """A key of the architecture: whole numbers, numbers, flags, texts or lists of one of them."""
        self.general(f"{self.architecture}.{name}", value)

    def general(self, name: str, value: Any) -> None:
        """A key by its full name."""
        assert self.table.get(name, value) == value, f"{name} is written twice: {self.table[name]} and {value}"
        self.table[name] = value

    def __call__(self, name: str) -> Any:
        """A key of the architecture that was put."""
        return self.table[f"{self.architecture}.{name}"]
