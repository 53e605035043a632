"""The slots of attention, each with the base of its parts, and the call that these parts read.

The forward pass goes through them in order: project, place, score, weigh, combine (`attention_module`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from anyformer.describe import Part
from anyformer.parts.call.shared import Read
from anyformer.parts.sketch import Flow
from anyformer.parts.slot import HeadSizes, Side, SlotPart, Way
from anyformer.parts.sublayer import Inputs
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Context, Memory, Visible
    from anyformer.parts.call.opened import OpenedPart
    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState, State


class Attending(Protocol):
    """The attention that parts stand in, as far as they see it."""

    heads: Any
    """Its description."""
    sizes: HeadSizes
    plan: Plan
    path: str
    """Its path in the model."""

    @property
    def drops(self) -> bool:
        """Whether attention weights are dropped in this mode."""

    def scoring(self, call: AttentionCall) -> dict[str, Any]:
        """What the kernels are told of it."""


@dataclass
class AttentionCall:
    """One forward pass of an attention, as the parts of its slots see it."""

    attention: Attending
    """The attention, which has what the parts built."""
    stream: Tensor
    """(B, T, D): the layer's input."""
    x: Tensor
    """What queries, keys, values and gates read: (B, T, D), or what an adjustment made of it."""
    context: Context
    state: State | None = None
    queries: Tensor | None = None
    """(B, T, H, E), before they are placed."""
    values: Tensor | None = None
    """(B, T, K, U) of this call's tokens; None of a layer without values of its own."""
    opened: OpenedPart | None = None
    """What is watched of it, where that is another path than the context's: of one of its maps."""

    @property
    def shown(self) -> OpenedPart | None:
        """Who asks for scores or weights (`shown_to`)."""
        from anyformer.parts.attention.named_values_module import shown_to

        return shown_to(self.context.opened if self.opened is None else self.opened)

    def of_map(self, number: int) -> AttentionCall:
        """The call of one of several maps of weights, whose scores and weights are seen under its number."""
        opened = self.context.opened
        return self if opened is None else replace(self, opened=opened.inside(f"maps[{number}]"))

    def built(self, name: str) -> Any:
        """What a part built under this name."""
        return getattr(self.attention, name)


class Adjustment(Part, SlotPart):
    """The base of what changes queries, keys and values on their way from x. Slot: project."""

    members: ClassVar[dict[str, type[Part]]] = {}

    def reads(self, groups: int) -> tuple[Read, ...]:
        """The values of the call, of its stack and of earlier layers that it reads, of K heads of keys."""
        return ()

    @property
    def value_factor(self) -> float:
        """The number by which it multiplies values."""
        return 1.0

    @property
    def cell_at(self) -> Literal["heads", "placed", "values"]:
        """Where its cell stands in pictures: behind queries and keys, behind their places, behind values."""
        return "heads"

    @property
    def sharers(self) -> int | None:
        """The most layers that can share the weights of an attention with it; None: any number."""
        return None

    def state_elements(self, sizes: HeadSizes, batch: int) -> int:
        """Numbers of the width of activations that the decode state holds for it, however long the text."""
        return 0

    def state(self, state: FullState | RingState, sizes: HeadSizes) -> FullState | RingState:
        """The state of keys and values, with what it holds beside them."""
        return state

    def inputs(self, features: int) -> int:
        """Features of what projections read, of so many before it."""
        return features

    def read(self, x_BTD: Tensor, call: AttentionCall) -> Tensor:
        """What projections read."""
        return x_BTD

    @property
    def inputs_of_depth(self) -> Inputs:
        """What the sides read of the depth of the model, where each has an input of its own."""
        return None

    def read_by(self, side: Side, x_BTD: Tensor, call: AttentionCall) -> Tensor:
        """What keys or values are projected from, where queries read x."""
        return x_BTD

    def projected(self, y: Tensor, x: Tensor, side: Side, call: AttentionCall) -> Tensor:
        """A projection (B, T, heads * E) of x, as values that are keys get it too."""
        return y

    def side_by_side(self, y: Tensor, side: Side, call: AttentionCall) -> Tensor:
        """What was projected, (B, T, heads * E)."""
        return y

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        """The heads of a projection, before they are placed."""
        return y_BTHE

    def placed(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        """Queries or keys after they are placed."""
        return y_BTHE


class Term(Part, SlotPart):
    """The base of what is added to scores. Slot: score."""

    members: ClassVar[dict[str, type[Part]]] = {}
    rules_out: ClassVar[frozenset[Way]] = frozenset({"bands", "chosen keys", "source", "two inputs", "outside", "latent"})
    every_position: ClassVar[bool] = False
    """Whether it adds up what every position before has, of which a window would leave some out."""

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values of the call, of its stack and of earlier layers that it reads."""
        return ()

    def beside(self, sizes: HeadSizes) -> int:
        """Numbers in fp32 per position that the decode state holds for it."""
        return 0

    def term(self, q_BHTE: Tensor, memory: Memory, call: AttentionCall) -> Tensor:
        """What is added to each score: (B or 1, H, T or 1, S) in fp32."""
        raise NotImplementedError


class Combine(Part, SlotPart):
    """The base of what is done with the mixed heads before the output projection. Slot: combine."""

    members: ClassVar[dict[str, type[Part]]] = {}

    looks_ahead: ClassVar[bool] = False
    """Whether it reads later positions, so that the mask must, too."""

    normalises: ClassVar[bool] = False
    """Whether what it leaves is normalised, whatever the weights."""

    @property
    def mixing(self) -> str | None:
        """The name in tables of what it mixes by itself."""
        return None

    def drawn(self, flow: Flow) -> Flow:
        """The picture of heads that were mixed as drawn, with it."""
        return flow

    def heads(self, mixed: tuple[int, int], sizes: HeadSizes) -> tuple[int, int]:
        """The number and the width of the heads that it leaves, of these."""
        return mixed

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        """The mixed heads, head by head."""
        return y_BHTU

    def rows(self, y_BTHU: Tensor, call: AttentionCall) -> Tensor:
        """The mixed heads, position by position."""
        return y_BTHU


class Remembered(Part, SlotPart):
    """The base of what stands in the place of a layer's own keys and values, or beside them. Slot: memory."""

    members: ClassVar[dict[str, type[Part]]] = {}
    replaces: ClassVar[bool] = False
    """Whether the layer has no keys and values of its own."""

    def reads(self, groups: int) -> tuple[Read, ...]:
        """The values of earlier layers that it reads, of K heads of keys."""
        return ()

    def more(self) -> int:
        """Keys that every query sees beside those of positions."""
        return 0

    def recalled(self, call: AttentionCall) -> Memory | None:
        """The keys and values that stand in the place of the layer's own."""
        return None

    def extended(
        self, memory: Memory, visible: Visible, bias: Tensor | None, call: AttentionCall
    ) -> tuple[Memory, Visible, Tensor | None]:
        """Keys and values, what a query sees of them and the terms of their scores, with those that stand beside them."""
        return memory, visible, bias
