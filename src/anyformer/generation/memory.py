"""Memory of the decode state: a text that needs too much is refused before any work; the state grows with the text."""

from __future__ import annotations

from anyformer.costs.available import free_memory
from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.shared import slot_bytes
from anyformer.parts.call.stack_state import StackState

PRECISIONS = {2: "bf16", 4: "fp32"}
"""A precision of activations of so many bytes."""
BLOCK = 1024
"""Positions of the first allocation; then the capacity doubles, so that all copies together write each position about once.
Where no more than so many are still to come, there is room for all of them."""


def grown(
    model: Transformer, state: StackState | None, batch: int, count: int, *, most: int | None = None, source: int = 0
) -> StackState:
    """`state`, or a larger copy of it, that holds `count` more positions; for None a new one.

    `most`: positions that the text will have at most; `source`: positions of the source, for a model with two inputs.
    """
    used = 0 if state is None else state.slots.used
    if state is not None and used + count <= state.slots.capacity:
        return state
    capacity = max(-(-(used + count) // BLOCK) * BLOCK, 2 * used)
    if most is not None:
        capacity = most if most - used - count <= BLOCK else min(capacity, most)
        # For a source in front of the target, the model adds its positions itself.
        capacity = max(capacity, used + count)
    larger = model.state(batch, capacity, source=source)
    if state is not None:
        larger.take(state)
    return larger


def state_bytes(model: Transformer, batch: int, length: int, source: int = 0) -> int:
    """Bytes of the decode state of `batch` rows of `length` positions, of which a process may hold its share."""
    shape = Shape(batch=batch, length=1, capacity=length, source=source)
    per_element = model.state_type.itemsize
    # Not all of it is held in the format of activations: the plan has to be of that in which the state is.
    plan = model.plan.but(precision=PRECISIONS.get(per_element, "fp32"))
    declared = (model.share or model).architecture.folded_cost(shape, plan).total_state_bytes
    before = source if model.architecture.source == "prefix" else model.architecture.virtual_tokens or 0
    return declared * max(per_element, plan.activation_bytes) // plan.activation_bytes + slot_bytes(batch, before + length)


def check_memory(model: Transformer, batch: int, length: int, source: int = 0) -> None:
    """Refuse a text whose decode state would not fit into free memory, beside that of other processes of this device."""
    here = 1 if model.share is None else model.share.here
    needed, free = here * state_bytes(model, batch, length, source), free_memory(model.device)
    if needed > free:
        within = "" if here == 1 else f" in {here} processes"
        raise UserError(
            f"{batch} x {length:,} positions would take {needed / 1e9:,.1f} GB of decode state{within}, and {free / 1e9:,.1f} "
            f"GB of memory are free: ask for fewer tokens or prompts"
        )
