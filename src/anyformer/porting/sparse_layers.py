"""Experts in place of the networks of some layers, as a change of a description."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import Block, Experts, FeedForward
from anyformer.porting.some_layers import in_layers

DENSE, SPARSE = "feedforward", "experts"


@dataclass(frozen=True)
class SparseLayers:
    """`experts` in the decoder's layers of these numbers, where a network stood; norms and wiring stay as they are."""

    layers: tuple[int, ...]
    experts: Experts

    def __call__(self, architecture: Architecture) -> Architecture:
        return in_layers(architecture, "decoder", self.layers, "sparse", self._block)

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
