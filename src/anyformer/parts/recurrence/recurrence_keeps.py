"""What a recurrence over chunks keeps for backward: traced, once for each size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.sublayer import Sublayer
from anyformer.parts.traced import Trace, chunked, empty, trace
from anyformer.plan import Plan
from anyformer.tape import Held, Number, Tape

Sizes = tuple[tuple[str, int, Number], ...]
"""Name, features and type of each of what a recurrence is given."""


def recurrence_keeps(part: Sublayer, tape: Tape, given: Mapping[str, Held], width: int, step: int) -> Held:
    """What the module's `recur` keeps of what it is `given`, each (B, T, features), and makes of it; gives its output.

    `step`: positions of a chunk.
    """
    sizes = tuple((name, x.elements // tape.rows, x.number) for name, x in given.items())
    return _found(part, width, tape.plan.chunk, step, tape.shape.batch, tape.shape.length, sizes).put_on(tape, given)


@lru_cache(maxsize=256)
def _found(part: Sublayer, width: int, chunk: int, step: int, batch: int, length: int, sizes: Sizes) -> Trace:
    return chunked(lambda length: _traced(part, width, chunk, batch, length, sizes), length, step)


def _traced(part: Sublayer, width: int, chunk: int, batch: int, length: int, sizes: Sizes) -> Trace:
    with torch.device("meta"):
        module = part.build(width, Plan(chunk=chunk), "traced")
        context = Context(torch.arange(length)[None], Plan(), padded=False)
    given = {name: empty((batch, length, features), number, "meta") for name, features, number in sizes}
    recur: Callable[..., Tensor] = module.recur  # type: ignore[assignment]
    return trace(lambda: recur(**given, context=context), given, {}, lambda: context.made)
