"""What the layers of a stack are told of a call."""

from __future__ import annotations

import torch

from anyformer.model.inputs import Call, StackInput, count_positions
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import EMPTY
from anyformer.parts.images.encoder_module import ImageEncoderModule
from anyformer.plan import Plan


def context_of(
    given: StackInput, call: Call, source: StackInput | None, plan: Plan, tower: ImageEncoderModule | None
) -> Context:
    """Positions, and what each of them may see; enters the chunk into the state.

    `source`: the input of cross-attention, if not in the state; `tower`: of the images among the tokens, if any.
    """
    state, padding, documents, chunk = call.state, given.padding, call.documents, None
    prefix, source_padding = call.prefix, None if source is None else source.padding
    if state is not None:
        chunk = state.slots.enter(padding, given.length)
        positions = chunk.positions
        # Prefix and source padding of the first chunk hold for all later ones.
        state.prefix = state.prefix if prefix is None else prefix
        state.source_padding = state.source_padding if source is None else source.padding
        prefix, source_padding = state.prefix, state.source_padding
    elif call.positions is not None:
        positions = call.positions
    elif call.kept is not None:
        positions = call.kept if padding is None else torch.where(padding, EMPTY, call.kept)
    else:
        positions = count_positions(given.x, padding, documents)
    counted = call.positions is None and call.kept is None
    # More than one position: a decode step, which is compiled, must not depend on how many slots are in use.
    fresh = state is None or (given.length > 1 and state.slots.used == given.length)
    until, axes = None, given.axes
    if tower is not None and given.tokens is not None:
        until, axes = tower.placed(given.tokens, positions, call.images, documents, state)
    return Context(
        positions,
        plan,
        aligned=padding is None and documents is None and counted and fresh,
        padded=padding is not None or not counted,
        documents=documents,
        prefix=prefix,
        until=until,
        axes=axes,
        added=given.added,
        noise=call.noise,
        tokens=given.tokens,
        times=call.times,
        classes=call.classes,
        auxiliary=call.auxiliary,
        choices=call.choices,
        chunk=chunk,
        source=None if source is None else source.x,
        source_padding=source_padding,
        shared={} if call.left is None else call.left,
    )
