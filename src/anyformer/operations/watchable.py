"""A value inside a part that can be watched and patched, as the part declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Watchable:
    """A tensor that a part names while it is computed: its shape in the letters of `dims.py`, and what it is.

    `sizes`: those of its dimensions that the description fixes, by letter; other letters are sizes of a call. `written_out`:
    whether a fused kernel keeps it to itself, so that asking for it has the kernel's formula written out. `ahead`: whether it
    is read by the next call alone, with a decode state.
    """

    letters: str
    about: str
    sizes: Mapping[str, int]
    written_out: bool = False
    ahead: bool = False

    @property
    def shape(self) -> str:
        """Its shape in words: `(B, T, H=4, E=8)`."""
        return f"({', '.join(f'{one}={self.sizes[one]}' if one in self.sizes else one for one in self.letters)})"


Watchables = dict[str, Watchable]
"""Values by their names within a part, in the order in which they are computed."""


def value(letters: str, about: str, *, written_out: bool = False, ahead: bool = False, **sizes: int) -> Watchable:
    """A value of this shape: `value("BTF", "the gate", F=64)`."""
    return sized(letters, about, sizes, written_out=written_out, ahead=ahead)


def sized(letters: str, about: str, sizes: Mapping[str, int], *, written_out: bool = False, ahead: bool = False) -> Watchable:
    """The same, with the sizes as a table."""
    assert sizes.keys() <= set(letters), "a size belongs to one of the letters"
    return Watchable(letters, about, sizes, written_out, ahead)


def inside(name: str, values: Mapping[str, Watchable]) -> Watchables:
    """The values of a part that stands in another under this name."""
    return {f"{name}.{inner}": each for inner, each in values.items()}
