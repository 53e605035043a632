"""The keys of a `quantization_config`: each is read, known to change no weight, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anyformer.huggingface.config import shown
from anyformer.huggingface.errors import HuggingFaceError

REMEDY = "take the checkpoint in full precision, or restore it with the tool that wrote it and save that"
"""What to do about a format that is not read."""
EVERYWHERE = (
    "_load_in_4bit", "_load_in_8bit", "dequantize", "modules_to_convert", "modules_to_not_convert", "quant_method",
)  # fmt: skip


class FormatSettings:
    """The table of a format, read key by key."""

    def __init__(self, table: Mapping[str, Any], where: str, format: str) -> None:
        self._table, self._left = table, set(table)
        self.where, self.format = where, format

    def __call__(self, name: str, default: Any = None) -> Any:
        """The value of a key; its default where it is absent or null."""
        self._left.discard(name)
        value = self._table.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int, *allowed: int) -> int:
        """A whole number; one of `allowed`, or with none at least 1."""
        value = self(name, default)
        if type(value) is not int or (value not in allowed if allowed else value < 1):
            raise self.refused(name, value, " or ".join(map(str, allowed)) if allowed else "a whole number above 0")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self(name, default)
        if type(value) is not bool:
            raise self.refused(name, value, "true or false")
        return value

    def word(self, name: str, default: str, *allowed: str) -> str:
        """A word of those allowed, in any case."""
        value = self(name, default)
        if not isinstance(value, str) or value.lower() not in allowed:
            raise self.refused(name, value, " or ".join(allowed))
        return value.lower()

    def refused(self, name: str, value: Any, read: str) -> HuggingFaceError:
        """The error about a variant that is not read."""
        return HuggingFaceError(
            f"{self.where}: quantization_config of {self.format}: {name} = {shown(value)} is not read here, only {read}; "
            f"{REMEDY}"
        )

    def finish(self, inert: Iterable[str]) -> None:
        """Refuse keys that were not read and are not known to change no weight."""
        unknown = sorted(self._left - {*EVERYWHERE, *inert})
        if unknown:
            listed = ", ".join(f"{name} = {shown(self._table[name])}" for name in unknown)
            raise HuggingFaceError(
                f"{self.where}: quantization_config of {self.format} has keys that are not known here, so the weights might be "
                f"others: {listed}; {REMEDY}"
            )
