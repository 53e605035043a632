"""Two stacks that run in cycles, a fast and a slow one, each with a stream of its own; few cycles learn.

    z_L = low(z_L + z_H), `fast` times; z_H = high(z_H + z_L); all of it `slow` times

z_H begins as what enters the layers, z_L as a stored vector (Hierarchical Reasoning Model, Wang et al. 2025, arXiv 2506.21734).
As one stack: layers that share their weights, and between two passes a layer without weights that adds the other stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import Named
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.constant import Constant
from anyformer.parts.layers.order import write_order
from anyformer.parts.layers.skip import Skip
from anyformer.parts.layers.stack import Stack
from anyformer.parts.layers.step import Step


@dataclass(frozen=True)
class Cycles:
    """The passes of both stacks, of `layers` each: in every cycle the fast stack `fast` times, then the slow one."""

    layers: int
    fast: int
    learning: tuple[int, ...]
    """Of each cycle, how many of its last fast passes have gradients."""

    def stack(self, block: Block, last: Block) -> Stack:
        """The stack in which the layers stand as they are computed; `last`: the last layer of a pass."""
        low, high = ([f"{side}_{i}" for i in range(self.layers)] for side in ("low", "high"))
        order: list[str] = []
        for cycle, learning in enumerate(self.learning):
            join = "again" if cycle else "first"
            back = "back" if cycle and self.learning[cycle - 1] else "back_cut" if cycle else "begin"
            cut = ["_cut" if number <= self.fast - learning else "" for number in range(self.fast + 1)]
            for number in range(self.fast):
                order += [join + cut[number] if number else back, *low]
            order += [join + cut[-1], *high]
        # Of the slow stream before it ended a pass, only what enters the layers is there.
        joins = {
            "begin": _join(Constant(learned=False)),
            "back": _join(Skip(variant=low[-1])),
            "back_cut": _join(Skip(variant=low[-1], detached=True)),
            **{name + cut: _join(Skip(variant=variant), cut) for name, variant in (("first", None), ("again", high[-1]))
               for cut in ("", "_cut")},
        }  # fmt: skip
        blocks = {name: last if name in (low[-1], high[-1]) else joins.get(name, block) for name in dict.fromkeys(order)}
        return Stack(variants=Named(blocks), order=write_order(order), shared_weights=(*low, *high))


def _join(sublayer: Constant | Skip, cut: str = "") -> Block:
    """x + y, of x as a constant if no gradient flows back into the pass before."""
    branch = Branch(sublayer=sublayer)
    return Block(steps=(Step(branches=Named({sublayer.kind: branch}), residual="detached" if cut else "input"),))
