"""Values that layers share: a layer reads by name a value left by a layer of another variant, by its stack or by the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Shared = dict[tuple[str | None, str], Any]
"""Values left in one call of a stack, by (variant, name); the variant is None for a value of the stack itself."""


@dataclass(frozen=True)
class Read:
    """One value that a sublayer reads beside the residual stream."""

    name: str
    variant: str | None = None
    """The value is read of the latest layer of this variant; None: of the stack or the call."""
    size: int | None = None
    """Heads or rows that it must have; None for any number."""
    required: bool = True
    """Whether its absence is an error; else the sublayer does without."""
    state: bool = False
    """Whether it is the decode state of the other layer, which each decode step then reads again."""
    constant: bool = False
    """Whether no gradient flows back to it."""
    unread: str | None = None
    """Why the sublayer cannot read it, so that its stack must not leave it; None where it is read."""

    def problem(self, left: Mapping[str, int] | None) -> str | None:
        """The reason why `left`, names and sizes, does not satisfy this; `left` is None if no such layer stands before."""
        whose = "its stack" if self.variant is None else f"variant {self.variant!r}"
        if left is None:
            return f"reads {self.name!r} of {whose}, and no layer of that variant stands before it"
        remedy = f": set {self.name} in the stack" if self.variant is None else ""
        if self.unread is not None:
            return f"{self.unread}, and {whose} leaves {self.name!r}: leave it out" if self.name in left else None
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
VALUES, MEMORY = "values", "keys and values"
"""What a self-attention leaves: the values (B, T, K, U) of the call's tokens, and the `Memory` of all keys and values."""
STREAM = "stream"
"""The residual stream (B, T, D) as it enters the layers of a stack, or behind a layer of a variant that others read it of."""
EMBEDDED, TRUNK, CONTEXT = "embedded", "trunk", "context"
"""What predictions of later tokens read: what enters a stack, what enters its last layer, and the context of its call."""


def behind(layer: int) -> str:
    """The name of the stream behind layer number `layer`, from 0, which a call may ask for (`Context.tapped`)."""
    return f"stream behind layer {layer}"


def read_only(shared: Shared, reads: Iterable[Read]) -> Shared:
    """The shared values that `reads` name."""
    keys = ((read.variant, read.name) for read in reads)
    return {key: shared[key] for key in keys if key in shared}


def slot_bytes(batch: int, capacity: int) -> int:
    """Bytes of the positions that a stack's decode state holds, one per slot."""
    return 8 * batch * capacity
