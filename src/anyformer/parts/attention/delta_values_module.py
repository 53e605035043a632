"""The module of values by the delta rule."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context, Memory, Visible
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState, State


class DeltaValuesModule(nn.Module):
    """Keys and values (B, K, S, ...) with the values v of this call's tokens -> the same with their u."""

    def __init__(self, inputs: int, groups: int, scale: float) -> None:
        super().__init__()
        self.rate, self.scale = nn.Linear(inputs, groups), scale

    def forward(self, x_BTD: Tensor, memory: Memory, visible: Visible, context: Context, state: State | None) -> Memory:
        length, keys = x_BTD.shape[1], memory.key.shape[2]
        beta = _exact(self.rate(x_BTD)).mT[..., None]
        places = None if state is None else _places(state, context, length)
        own_key, own_value = (x if places is None else x.index_select(2, places) for x in (memory.key, memory.value))
        kind = x_BTD.device.type
        # Corrections of corrections are not rounded to 16 bits on their way.
        with torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
            scores = (_exact(own_key) @ _exact(memory.key).mT) * self.scale
            earlier = _earlier(memory, visible, context, length)
            # Softmax of what is finite: a first token has no key before it, and recalls nothing.
            least = torch.finfo(scores.dtype).min
            weights = scores.masked_fill(~earlier, least).softmax(-1).masked_fill(~earlier, 0) * beta
            new = _exact(own_value)
            if keys > length:
                past = weights if places is None else weights.index_fill(-1, places, 0)
                new = new - past @ _exact(memory.value)
            if length > 1:
                within = weights if places is None else weights.index_select(-1, places)
                new = torch.linalg.solve_triangular(within, new, upper=False, unitriangular=True)
        return Memory(memory.key, _kept(new.to(memory.value.dtype), memory.value, places, state, context), memory.keys)


def _exact(x: Tensor) -> Tensor:
    """In fp32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _earlier(memory: Memory, visible: Visible, context: Context, length: int) -> Tensor:
    """The visible keys that stand before each token, bool (B or 1, 1, T, S); padding has none."""
    before = memory.keys.positions[:, None, None, :] < context.positions[:, None, :, None]
    allowed = visible.dense(length, before.device)
    return before if allowed is None else before & allowed


def _places(state: State, context: Context, length: int) -> Tensor:
    """Where this call's tokens stand among the keys, (T,)."""
    assert context.chunk is not None, "a stack with state enters its chunk first"
    slots = context.chunk.slots
    if not isinstance(state, RingState):
        return slots
    return slots % state.size if length == 1 else state.size + torch.arange(length, device=slots.device)


def _kept(new: Tensor, value: Tensor, places: Tensor | None, state: State | None, context: Context) -> Tensor:
    """All values with those of this call, which the decode state takes over."""
    if places is None:
        return new
    assert isinstance(state, FullState | RingState), "made by the description"
    assert context.chunk is not None, "a stack with state enters its chunk first"
    if isinstance(state, RingState):
        slots = context.chunk.slots[-state.size :]
        state.value.index_copy_(2, slots % state.size, new[:, :, -state.size :])
    # Of a full state, and of a ring of which one slot was overwritten, these are the state's own values.
    return value.index_copy_(2, places, new)
