"""What one rank of a layout computes and sends while it serves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Kernel
from anyformer.planning import communication, links
from anyformer.planning.layout import Layout
from anyformer.planning.routing import copies
from anyformer.planning.stages import UnitRow


@dataclass(frozen=True)
class ServingRank:
    """A rank of `hardware` that serves the units of a row, whose weights take `compression` of their bytes in 16 bits."""

    row: UnitRow
    on: Hardware
    compression: float

    def share(self, kernel: Kernel, layout: Layout) -> Kernel:
        """One rank's share of a kernel: products are divided, decode state as far as it can be, the stream is not."""
        ranks = layout.ep if kernel.share == "experts" else layout.tp
        own = kernel.of_rank(ranks, layout.ep, sp=False)
        return replace(own, weights=round(own.weights * self.compression))

    def sending(self, layout: Layout, tokens: int) -> float:
        """Seconds of tensor-parallel sums, of tokens sent to experts and back, and of stages' outputs, each at least `HOP`."""
        stream = tokens * self.row.width * self.row.element
        sums = sum(unit.sums for unit in self.row.units) // 2
        seconds = 0.0
        if layout.tp > 1:
            seconds += sums * (communication.all_reduce(stream, layout.tp) / links.ring(self.on, layout.tp, 1) + links.HOP)
        if layout.ep > 1:
            own, straight = -(-tokens // layout.tp), replace(layout, dispatcher="by_expert")
            for unit in self.row.units:
                for routing in unit.routed:
                    near, far = copies(routing, straight, self.on.domain)
                    size = own * routing.width * self.row.element
                    seconds += 2 * (links.exchange(self.on, near * size, far * size) + links.HOP)
        near = layout.ranks <= self.on.domain
        link = (self.on.link if near else self.on.network) * self.on.efficiency.network
        return seconds + (layout.pp - 1) * (stream / layout.tp / link + links.HOP)
