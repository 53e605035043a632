"""Weights that a process of several has whole while it computes with them, of which it otherwise holds a part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from anyformer.costs.counts import located
from anyformer.costs.peak import TIED_COPIES
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan

_WIDE = 4
"""Bytes of a weight as it is gathered: in fp32."""


@dataclass(frozen=True)
class GatheredWeights:
    """Bytes of gathered weights: `root`, of all that stand outside the layers, from the forward pass to the end of the backward
    pass; `layer`, of the largest layer, while it computes; `tied`, of gradients of a table that gets two; `kept`, of layers
    whose weights and gradients stay whole during an update (`Mesh.schedule`). `outside`: the share of all that `root` is.

    As FSDP gathers them (Zhao et al. 2023, arXiv 2304.11277).
    """

    root: int = 0
    layer: int = 0
    tied: int = 0
    outside: float = 0.0
    kept: int = 0

    @staticmethod
    def of(architecture: Architecture, plan: Plan) -> GatheredWeights:
        """Of the weights of an architecture, which its processes divide and gather."""
        tally = architecture.trained_cost(Shape(source=1))
        find, groups = located(tally), Counter[tuple[str, str | None]]()
        for name, weight in tally.weights.items():
            at = find(name)[0]
            groups["" if at.layer is None else at.module, at.layer] += weight.count
        table = architecture.head_table if architecture.head is not None and architecture.head.tied else None
        tied = 0 if table is None else tally.weights[table[0]].count * TIED_COPIES[plan.number]
        every, root = groups.total(), groups.pop(("", None), 0)
        if plan.mesh.schedule == "zero_bubble":
            layers = groups.total() // plan.mesh.pipeline
            return GatheredWeights(_WIDE * root, 0, _WIDE * tied, root / every, _WIDE * layers)
        return GatheredWeights(_WIDE * root, _WIDE * max(groups.values(), default=0), _WIDE * tied, root / every)

    @property
    def forward(self) -> int:
        """Beside a layer, the next one is on its way."""
        return self.root + 2 * self.layer + self.kept

    @property
    def backward(self) -> int:
        """Beside a layer and its gradients, these are on their way to the others, and the layer before it is on its own."""
        return self.root + 4 * self.layer + 2 * self.kept

    @property
    def end(self) -> int:
        """At the end of the backward pass gradients stand beside the weights outside the layers, and are added up or sent.

        Those of the layer before are still on their way.
        """
        return 2 * self.root + max(self.tied, self.root) + 2 * self.layer + 2 * self.kept


NOTHING = GatheredWeights()
"""Of the only process, which has every weight whole."""
