"""What a sublayer that does not say itself what it keeps for backward does keep: traced whole, once for each size."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Noise
from anyformer.parts.traced import DTYPES, Trace, empty, trace
from anyformer.plan import Plan
from anyformer.tape import Held, Number, Tape

if TYPE_CHECKING:
    from anyformer.parts.sublayer import Sublayer


def sublayer_keeps(part: Sublayer, tape: Tape, x: Held, width: int) -> Held:
    """As its module runs in training, on rows without padding; it may read the source, the tokens and noise."""
    given = {"x": x} if tape.source is None else {"x": x, "source": tape.source}
    if "latest" in tape.tokens:
        given["tokens"] = tape.tokens["latest"]
    numbers = tuple((name, held.number) for name, held in given.items())
    shape = tape.shape.batch, tape.shape.length, tape.shape.source
    return _traced(part, width, tape.plan, shape, numbers, tape.training).put_on(tape, given)


@lru_cache(maxsize=256)
def _traced(
    part: Sublayer,
    width: int,
    plan: Plan,
    shape: tuple[int, int, int],
    numbers: tuple[tuple[str, Number], ...],
    training: bool,
) -> Trace:
    B, T, S = shape
    sizes = {"x": (B, T, width), "source": (B, S, width)}
    with FakeTensorMode(allow_non_fake_inputs=True):
        module = part.build(width, plan, "traced").train(training)
        given = {name: empty(sizes[name], number, "cpu") for name, number in numbers if name in sizes}
        if any(name == "tokens" for name, _ in numbers):
            given["tokens"] = torch.zeros(B, T, dtype=torch.int64)
        noise = Noise(torch.zeros((), dtype=torch.int64), torch.arange(B))
        context = Context(
            torch.arange(T)[None], plan, padded=False, noise=noise, tokens=given.get("tokens"), source=given.get("source")
        )
        with torch.autocast("cpu", DTYPES["bf16"], enabled=plan.number == "bf16"):
            return trace(lambda: module(given["x"], context), given, dict(module.named_parameters()), lambda: context.made)
