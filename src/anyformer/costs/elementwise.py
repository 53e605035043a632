"""Element-wise work of a forward pass, which memory bounds: the operations that are no matrix products."""

from __future__ import annotations

from anyformer.model import Architecture
from anyformer.operations import Elementwise, Flops, Shape, Tally
from anyformer.plan import Plan


def elementwise(architecture: Architecture, shape: Shape, plan: Plan | None = None) -> dict[str, Flops]:
    """Element-wise operations of a call, by kind."""
    return elementwise_of(architecture.folded_cost(shape, plan))


def elementwise_of(tally: Tally) -> dict[str, Flops]:
    """Operations by kind in the lecture notes' convention (see `operations.elementwise`): norms, rotary, softmax, activations,
    residual additions.

    Only softmax differs between all pairs (`dense`) and those that the masks allow (`exact`). Recurrences, routers, gates,
    score biases and the loss are not counted.
    """
    sums: dict[str, Flops] = {}
    for node in tally.nodes():
        for work in node.tally.own_work.values():
            if isinstance(work, Elementwise):
                sums[work.kind] = sums.get(work.kind, Flops()) + Flops(work.dense, work.exact) * node.times
    return {kind: flops for kind, flops in sums.items() if flops.dense}
