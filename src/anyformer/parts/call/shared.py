"""What layers share: a layer reads by name what a layer of another variant, its stack or the call left for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Shared = dict[tuple[str | None, str], Any]
"""Values left in one call of a stack by (variant, name); the variant is None where the stack itself left the value."""


@dataclass(frozen=True)
class Read:
    """One thing that a sublayer reads beside the residual stream."""

    name: str
    variant: str | None = None
    """Read of the latest layer of this variant; None: of the stack or the call."""
    size: int | None = None
    """How many heads or rows it must have; None for any."""
    required: bool = True
    """Whether it must be there; else it is read where it is."""
    state: bool = False
    """Whether it is the decode state of the other layer, which each decode step then reads again."""

    def problem(self, left: Mapping[str, int] | None) -> str | None:
        """Why nothing of `left`, names and sizes, can be read so; `left` is None where nobody stands there to leave it."""
        whose = "its stack" if self.variant is None else f"variant {self.variant!r}"
        if left is None:
            return f"reads {self.name!r} of {whose}, and no layer of that variant stands before it"
        remedy = f": set {self.name} in the stack" if self.variant is None else ""
        if self.name not in left:
            offered = f"leaves {', '.join(map(repr, left))} only" if left else "leaves nothing"
            return f"reads {self.name!r} of {whose}, which {offered}{remedy}" if self.required else None
        if self.size not in (None, left[self.name]):
            return f"reads {self.name!r} of size {self.size} of {whose}, where its size is {left[self.name]}"
        return None


SOURCE = Read("source")
"""The sequence that cross-attention reads: the encoder's output, or the input that latents read."""
TOKENS = Read("tokens")
"""The tokens themselves, beside the stream that was made of them."""


def read_only(shared: Shared, reads: Iterable[Read]) -> Shared:
    """The shared values that `reads` name, where they are there."""
    keys = ((read.variant, read.name) for read in reads)
    return {key: shared[key] for key in keys if key in shared}
