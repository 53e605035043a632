"""Layers of which those in the middle are computed several times, each time with the stream before them added again.

    x_0 = norm(first(x));  x_i = middle(norm(x_(i - 1)) + x_0), `times` times;  last(x_times)

As one stack: layers that share their weights, and before each pass a layer without weights that adds the stream before them
(latent recurrence with input injection: Geiping et al. 2025, arXiv 2502.05171; with sums of norms Dory, arXiv 2611.03998).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyformer.describe import Named
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.order import write_order
from anyformer.parts.layers.skip import Skip
from anyformer.parts.layers.stack import Stack
from anyformer.parts.layers.step import Step
from anyformer.parts.norms.norm import Norm

ENTRY, AGAIN = "entry", "again"
"""The last layer before the loop, whose stream each pass reads, and the layer that adds it."""


@dataclass(frozen=True)
class Looped:
    """The layers `before` the loop, those in it, and how many `times` they are computed; the rest stands behind."""

    before: int
    looped: int
    times: int

    def stack(self, layers: Sequence[tuple[str, Block]], norm: Norm) -> Stack:
        """The stack in which the layers stand as they are computed, of (name, block) of every layer with weights of its own;
        `norm`: of both streams that are added, and of what leaves the stack."""
        behind = self.before + self.looped
        first = [ENTRY if i == self.before - 1 else name for i, (name, _) in enumerate(layers[: self.before])]
        inner = [f"looped_{i}" for i in range(self.looped)]
        last = [name for name, _ in layers[behind:]]
        skip = Branch(sublayer=Skip(variant=ENTRY if first else None), norm_after=norm)
        again = Block(steps=(Step(norm_before=norm, branches=Named(skip=skip), residual="normed"),))
        blocks = dict(zip((*first, *inner, *last), (block for _, block in layers), strict=True)) | {AGAIN: again}
        order = write_order([*first, *(AGAIN, *inner) * self.times, *last])
        return Stack(variants=Named(blocks), order=order, shared_weights=tuple(inner), final_norm=norm)
