"""Element-wise work of a forward pass: what matrix products leave out, a line of its own, for memory bounds it."""

from __future__ import annotations

from anyformer.model import Architecture
from anyformer.operations import Elementwise, Flops, Shape
from anyformer.plan import Plan


def elementwise(architecture: Architecture, shape: Shape, plan: Plan | None = None) -> dict[str, Flops]:
    """Operations by kind in the lecture notes' convention (see `operations.elementwise`): norms, rotary, softmax, activations,
    residual additions.

    Only softmax differs between all pairs (`dense`) and those that the masks allow (`exact`). Recurrences, routers, gates,
    score biases and the loss are not counted.
    """
    found: dict[str, Flops] = {}
    for node in architecture.folded_cost(shape, plan).nodes():
        for work in node.tally.own_work.values():
            if isinstance(work, Elementwise):
                found[work.kind] = found.get(work.kind, Flops()) + Flops(work.dense, work.exact) * node.times
    return {kind: each for kind, each in found.items() if each.dense}
