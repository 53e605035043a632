"""Experts in place of the networks of some layers, as a change of a description."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import Block, Experts, FeedForward, Stack

DENSE, SPARSE = "feedforward", "experts"


@dataclass(frozen=True)
class SparseLayers:
    """`experts` in the decoder's layers of these numbers, where a network stood; norms and wiring stay as they are."""

    layers: tuple[int, ...]
    experts: Experts

    def __call__(self, architecture: Architecture) -> Architecture:
        decoder = architecture.decoder
        return architecture if decoder is None else architecture.but(decoder=self._stack(decoder))

    def _stack(self, stack: Stack) -> Stack:
        sparse = {name: self._block(block) for name, block in stack.variants.items()}
        order = [f"{name}_sparse" if at in self.layers else name for at, name in enumerate(stack.layers)]
        made = {**stack.variants, **{f"{name}_sparse": block for name, block in sparse.items()}}
        used = set(order)
        return stack.but(variants=Named({name: made[name] for name in made if name in used}), order=" ".join(order))

    def _block(self, block: Block) -> Block:
        """The block with experts in the branch of its network, under their usual name."""
        steps = []
        for step in block.steps:
            branches = {
                SPARSE if name == DENSE else name: branch.but(sublayer=self.experts)
                if isinstance(branch.sublayer, FeedForward)
                else branch
                for name, branch in step.branches.items()
            }
            steps.append(step.but(branches=Named(branches)))
        return block.but(steps=tuple(steps))
