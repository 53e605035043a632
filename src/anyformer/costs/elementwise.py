"""Element-wise work of a forward pass: what matrix products leave out, a line of its own, for memory bounds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from anyformer.model import Architecture
from anyformer.parts import Block
from anyformer.parts.pointwise.elementwise import ACTIVATED, GATED, SCORE, normalised
from anyformer.plan import Plan
from anyformer.tally import Flops, Shape, Tally


def elementwise(architecture: Architecture, shape: Shape, plan: Plan | None = None) -> dict[str, Flops]:
    """Operations by kind in the lecture notes' convention (see `parts.elementwise`): norms, rotary, softmax, activations,
    residual additions.

    Only softmax differs between all pairs (`dense`) and those that the masks allow (`exact`). Recurrences, routers, score
    biases and the loss are not counted.
    """
    tally = architecture.folded_cost(shape, plan)
    work: Counter[str] = Counter()
    softmax = Flops()
    for name, stack in architecture.stacks.items():
        reads = architecture.shape_of(name, shape)
        if reads is None:
            continue
        rows = reads.batch * reads.length
        before = stack.width_before(architecture.width, architecture.table_width)
        for norm, features in ((stack.input_norm, before), (stack.final_norm, architecture.width)):
            work["norms"] += rows * normalised(features) if norm is not None else 0
        for variant, layers in Counter(stack.layers).items():
            for kind, each in _of_block(stack.variants[variant], architecture.width).items():
                work[kind] += layers * rows * each
        for variant, block in stack.variants.items():
            softmax += _softmax(tally, f"{name}.layers.{variant}", block, architecture.width, reads)
    work["activations"] += sum(_activations(tally))
    found = {"softmax": softmax, **{kind: Flops(each, each) for kind, each in work.items()}}
    return {kind: each for kind, each in found.items() if each.dense}


def _of_block(block: Block, width: int) -> Counter[str]:
    """Of one position in one layer: its norms, an addition of each branch, and what its sublayers say."""
    work = Counter({"norms": normalised(width, len(block.norms)), "residual": width * len(block.branches)})
    for sublayer in block.sublayers:
        work.update(sublayer.elementwise(width))
    return work


def _softmax(tally: Tally, layers: str, block: Block, width: int, shape: Shape) -> Flops:
    """Of the scores, from the products that make them; folded, they are those of all layers of the variant."""
    work = Flops()
    for name, branch in block.branches.items():
        met = branch.sublayer.meetings(width, shape).get("scores")
        if met is not None:
            made, features = tally.flops[f"{layers}.{name}.sublayer.scores"], met[1]
            work += Flops(made.dense // (2 * features), made.exact // (2 * features)) * SCORE
    return work


def _activations(tally: Tally) -> Iterator[int]:
    """What comes out of every `up` projection, activated, and multiplied where there is a `gate` too."""
    for name, flops in tally.flops.items():
        module, _, own = name.rpartition(".")
        weight = tally.weights.get(f"{name}.weight") or tally.weights.get(name)
        if own == "up" and weight is not None:
            features = flops.exact // (2 * weight.shape[-1])
            yield features * (ACTIVATED + (GATED if f"{module}.gate" in tally.flops else 0))
