"""Weights that a process of several has whole while it computes with them, and the buffers in which FSDP2 moves them.

As torch 2.13 does it on every device (`torch.distributed.fsdp._fully_shard`), with gloo's collectives. Of a group of weights:

- To gather it takes a buffer, and gloo a second one to receive into; the weights themselves are copied out of the buffer. In
  the forward pass the buffer stays until the next group is copied out, in the backward pass the next layer is gathered ahead.
- To sum its gradients takes a buffer, which stays until the next group is summed, and gloo a copy of it; where nobody divides
  the weights, a copy of the gradients and one that is divided by 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GatheredWeights:
    """Bytes of gathered weights: `root`, of all that stand outside the layers, from the forward pass to the end of the backward
    pass; `head`, of those among them that are computed after the layers, whose gradients come first; `layer`, of the largest
    layer, while it computes; `tied`, of gradients of a table that gets two; `kept`, of all layers, where their weights and
    gradients stay whole during an update (`Mesh.schedule`). `root_gradients`, `layer_gradients`, `kept_gradients`: of those of
    them that learn, the bytes of their gradients. `ways`: the processes that divide them.

    As FSDP gathers them (Zhao et al. 2023, arXiv 2304.11277).
    """

    root: int = 0
    head: int = 0
    layer: int = 0
    tied: int = 0
    kept: int = 0
    root_gradients: int = 0
    layer_gradients: int = 0
    kept_gradients: int = 0
    ways: int = 1

    @property
    def start(self) -> int:
        """When the first layer is gathered, the buffer of what stands outside the layers is still there."""
        return self._sent * (self.root + self.layer) + self.root + self.layer

    @property
    def loss(self) -> int:
        """In the forward pass, and at the loss, the buffer of the layer before is still there."""
        return self.root + self.kept + self._sent * self.layer

    @property
    def backward(self) -> int:
        """When a layer begins: the layer, the gradients of the one before on their way, and two buffers of the next; where
        nobody divides it, when it ends: its gradients three times. Gradients that stay whole are on no way."""
        apart = 3 * self.layer + self.layer_gradients if self._sent else 3 * self.layer_gradients
        return self.root + self.head + self.kept + (self.layer if self.kept else apart)

    @property
    def end(self) -> int:
        """At the end of the backward pass: gradients beside the weights outside the layers, and then their sum alone, in a
        buffer, a copy and this process's part, which where nobody divides them is all."""
        if self.kept:
            # As parts of gradients come, which a process is said to hold, whole ones go.
            whole, made = self.root + self.kept, self.root_gradients + self.kept_gradients
            return whole + made - made // self.ways + max(self.root_gradients, self.layer_gradients) // self.ways
        summed = 2 * self.root_gradients + self.root_gradients // self.ways
        return max(self.root + self.root_gradients + self.tied + self.layer_gradients, summed)

    @property
    def _sent(self) -> int:
        """1 where weights travel, 0 where each process has all of them."""
        return int(self.ways > 1)


NOTHING = GatheredWeights()
"""Of a process that has every weight whole."""
