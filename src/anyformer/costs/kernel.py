"""One kernel of a step, and the share of it of one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anyformer.operations import Address, Flops

Mode = Literal["train", "prefill", "decode"]
Unit = Literal["matrix", "attention", "memory", "optimiser"]
"""The work of a kernel: products with a weight, products between activations, reads and writes of memory alone, or the reads
and writes of an optimiser's update."""
Share = Literal["features", "experts", "positions", "all"]
"""How tensor parallelism divides a kernel: by features of its weight; by whole experts; by positions of the stream, where
these are divided at all; or not."""


@dataclass(frozen=True)
class Kernel:
    """One kernel in each of `layers` layers: `flops` of the model, FLOPs `executed`, in so many `launches`; bytes to and from
    memory of `weights`, of decode `state` and of all else that it `moves`."""

    address: Address
    name: str
    unit: Unit
    flops: Flops
    executed: int
    moves: int
    weights: int = 0
    launches: int = 1
    layers: int = 1
    share: Share = "all"
    path: str = ""
    """Path of the weight, where all layers of a variant are one."""
    state: int = 0
    state_ranks: int = 1
    """Ranks among which the decode state can be divided, at most."""
    number: str = "bf16"
    """The format of the operands of its products, whose peak rate it reaches."""
    passes: int = 3
    """Of the forward pass and the gradients of input and weight, those that it has; all are as much work."""

    @property
    def bytes(self) -> int:
        """Bytes to and from memory."""
        return self.weights + self.moves + self.state

    def of_rank(self, tp: int, ep: int = 1, *, sp: bool = True) -> Kernel:
        """The share of one of `tp` ranks that divide products, of `ep` that divide experts, with positions divided or not."""
        ranks = tp if self.share in ("features", "experts") or (self.share == "positions" and sp) else 1
        weight_ranks = {"features": tp, "experts": ep, "positions": 1, "all": 1}[self.share]
        if ranks == weight_ranks == 1:
            return self
        return Kernel(
            self.address,
            self.name,
            self.unit,
            self.flops,
            self.executed // ranks,
            -(-self.moves // ranks),
            -(-self.weights // weight_ranks),
            self.launches,
            self.layers,
            self.share,
            self.path,
            -(-self.state // min(ranks, self.state_ranks)),
            self.state_ranks,
            self.number,
            self.passes,
        )

    @property
    def title(self) -> str:
        """Component, part and name: `decoder.attention.query`, whatever the layer."""
        words = (self.address.component, *self.address.part, self.name)
        return ".".join(word for word in words if word)
