"""The forward pass of self-attention, slot by slot: project, place, remember, score, weigh, combine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from torch import Tensor

from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.heads_module import HeadsModule
from anyformer.parts.attention.score_bias import SCORE_BIAS
from anyformer.parts.attention.slots import AttentionCall, Remembered
from anyformer.parts.call.context import Context, Memory, Visible
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.shared import MEMORY, VALUES
from anyformer.parts.call.state import FullState, State
from anyformer.parts.masks.mask import Mask
from anyformer.parts.positions.place import Place
from anyformer.parts.slot import Side
from anyformer.plan import Plan


class Outside(Protocol):
    """A kernel from outside: queries (B, H, T, E), keys and values, and what queries see of them -> (B, H, T, U)."""

    def __call__(self, q_BHTE: Tensor, memory: Memory, visible: Callable[[], Visible]) -> Tensor: ...


class AttentionModule(HeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(
        self,
        heads: Heads,
        width: int,
        plan: Plan,
        name: str,
        *,
        mask: Mask,
        place: Iterable[Place] = (),
        memory: Iterable[Remembered] = (),
    ) -> None:
        super().__init__(heads, width, plan, name, mask=mask)
        self.score, self.place, self.memory = heads.score, tuple(place), tuple(memory)
        self.bands = not heads.in_the_way("bands")
        self.outside: Outside | None = None
        """The kernel from outside that computes it in the place of those here."""

    def forward(self, x_BTD: Tensor, context: Context, state: State | None = None) -> Tensor:
        call = AttentionCall(self, x_BTD, x_BTD, context, state)
        for adjustment in self.adjust:
            call.x = adjustment.read(call.x, call)
        call.queries = context.see("query", self.projected("query", self.read("query", call), call))
        q = self.placed("query", call.queries, call)
        for place in self.place:
            q = place.scaled(q, context)
        q = context.see("placed_query", q).transpose(1, 2)
        memory = self.remembered(call)
        if self.outside is not None and call.shown is None:
            return self.finished(self.outside(q, memory, lambda: self.visible(call.x, context, memory.keys)), call)
        bias = self.score.bias(self._of_stack(q, memory, call), q, memory, call)
        banded = bias is None and self.bands and not self.drops and call.shown is None
        visible = self.visible(call.x, context, memory.keys, banded=banded)
        for part in self.memory:
            memory, visible, bias = part.extended(memory, visible, bias, call)
        return self.finished(self.score.attended(q, memory, visible, bias, call), call)

    def read(self, side: Side, call: AttentionCall) -> Tensor:
        """What queries, keys or values are projected from."""
        x = call.x
        for part in self.adjust if side != "query" else ():
            x = part.read_by(side, x, call)
        return x

    def placed(self, side: Side, x_BTHE: Tensor, call: AttentionCall) -> Tensor:
        """Queries or keys by their positions."""
        for place in self.place:
            x_BTHE = place.turned(x_BTHE, side, call.context, self)
        for part in self.adjust:
            x_BTHE = part.placed(x_BTHE, side, call)
        return x_BTHE

    def remembered(self, call: AttentionCall) -> Memory:
        """The keys and values that queries read: those of another layer, or this layer's with those of its state, which it
        leaves for the layers that read them."""
        for part in self.memory:
            if (recalled := part.recalled(call)) is not None:
                return recalled
        context, state = call.context, call.state
        k, v = self.keys_and_values(self.read("key", call), self.read("value", call), call)
        if context.variant is not None:
            context.leave(VALUES, v)
        call.values = v
        k = context.see("placed_key", self.placed("key", k, call))
        k, v = (context.gathered(x).transpose(1, 2) for x in (k, v))
        keys = context.keys
        if state is not None:
            assert isinstance(state, FullState | RingState), "made by the description"
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k, v, keys = state.extend(k, v, context.chunk)
        memory = Memory(k, v, keys)
        if context.variant is not None:
            context.leave(MEMORY, memory)
        return memory

    def _of_stack(self, q_BHTE: Tensor, memory: Memory, call: AttentionCall) -> Tensor | None:
        """What the stack adds to the scores of its layers, computed once for equal keys."""
        context = call.context
        shared = context.shared.get((None, SCORE_BIAS))
        if shared is None:
            return None
        bias: Tensor = context.once((SCORE_BIAS, memory.keys.label), lambda: shared(q_BHTE, memory, context, None, call.x))
        return bias
