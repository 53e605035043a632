"""What a stack and a block ask of every kind of sublayer; the defaults are those of one that stands alone at each position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

import torch
from torch import nn

from anyformer.describe import DescriptionError, Registry
from anyformer.parts.call.state import State
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sketch import Drawn
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally
from anyformer.tape import Held, Tape

N = TypeVar("N", bound=str)


def each_once(names: tuple[N, ...], known: tuple[N, ...]) -> tuple[N, ...]:
    """The named projections in the order of `known`; refuses one that is named twice."""
    if len(set(names)) < len(names):
        raise ValueError(f"names a projection twice: {list(names)}")
    return tuple(name for name in known if name in names)


def head_width(width: int, heads: int, given: int | None) -> int:
    """E: the given width of a head, or D / H, which must be whole."""
    if given is not None:
        return given
    if width % heads:
        raise DescriptionError(f"heads must divide the width or head_width be given, got heads = {heads} and width = {width}")
    return width // heads


@dataclass(frozen=True)
class Network:
    """A feed-forward network: its width F, whether it is gated, whether it is one of experts that tokens choose."""

    width: int
    gated: bool
    routed: bool = False


class Sublayer(Drawn):
    """A description that a branch can hold: (B, T, D) -> (B, T, D)."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    reads_source: ClassVar[bool] = False
    """Whether it attends to another sequence."""

    @property
    def reads_tokens(self) -> bool:
        """Whether it looks at the tokens themselves, beside the stream."""
        return False

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The masks of its attentions."""
        return ()

    @property
    def keys_of(self) -> str | None:
        """The variant whose keys and values it reads; None where it has its own, or none."""
        return None

    @property
    def shared_bias_heads(self) -> int | None:
        """How many heads take a score bias of the stack; None where none do."""
        return None

    @property
    def reads_relative(self) -> int | None:
        """Rows for each direction that it reads of the stack's table of relative positions; None where it reads none."""
        return None

    @property
    def mixing(self) -> str | None:
        """How it moves information along its own sequence, in the field's word (`GQA`, `MLA`); None where it does not."""
        return None

    @property
    def position_name(self) -> str | None:
        """How it tells positions apart (`RoPE`, `NoPE`); None where nothing has to be told apart."""
        return None

    @property
    def nonlinearity(self) -> str | None:
        """The activation of its feed-forward network in the field's word (`SwiGLU`)."""
        return None

    @property
    def routing(self) -> tuple[int, int] | None:
        """How many experts it has, and how many of them a token passes."""
        return None

    @property
    def network(self) -> Network | None:
        """Its feed-forward network; None where it is none."""
        return None

    def with_network(self, width: int) -> Self:
        """The same with a feed-forward network of another width."""
        return self

    @property
    def divides_width(self) -> int:
        """What the stream's width must be a multiple of: its heads, where they share the width among them."""
        return 1

    def meetings(self, width: int, shape: Shape) -> Mapping[str, tuple[int, int]]:
        """Of its products over (query, key) pairs, `scores` and `mix`: how many heads, and how many features of a pair."""
        return {}

    def elementwise(self, width: int) -> Mapping[str, int]:
        """Element-wise operations of one position by kind, beside those of softmax and activation."""
        return {}

    @property
    def cuts(self) -> tuple[int, ...]:
        """Counts that tensor parallelism must divide besides the sides of weights, so that no head is cut in two."""
        return ()

    @property
    def state_cuts(self) -> int:
        """Among how many tensor-parallel ranks its decode state can be divided: its key heads; 1 where each needs all of it."""
        return 1

    @property
    def tricks(self) -> tuple[str, ...]:
        """What it does for stable training, in the field's words."""
        return ()

    def spelled_out(self, width: int) -> Self:
        """The same, with every size written out that follows from others."""
        return self

    def check(self, width: int) -> None:
        """Refuse what only the width reveals."""

    def build(self, width: int, plan: Plan, name: str) -> nn.Module:
        """The module; `name` is its path in the model."""
        raise NotImplementedError

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        """Everything it declares for one call."""
        raise NotImplementedError

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        """What it keeps for backward, in the order of its forward pass; gives its output.

        By default found by tracing its module, which is exact and takes tenths of a second for each size.
        """
        from anyformer.parts.traced_sublayer import sublayer_keeps

        return sublayer_keeps(self, tape, x, width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> State | None:
        """Preallocated decode state, None without memory."""
        return None
