"""Bottleneck: attention and several feed-forward networks at fewer features than the stream has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from anyformer.describe import Count
from anyformer.operations import Product, Shape, Tally, Watchables, inside, matrix, total
from anyformer.operations.elementwise import added
from anyformer.parts.attention.attention import Attention
from anyformer.parts.call.shared import Read
from anyformer.parts.feedforward.feedforward import FeedForward
from anyformer.parts.masks.mask import Mask
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Network, Resizing, Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState
    from anyformer.parts.layers.bottleneck_module import BottleneckModule


class Bottleneck(Sublayer):
    """y = h_n W_widen, h_i = norm(h_(i-1) + network_i(h_(i-1))), h_0 = norm(norm(x W_narrow) + attention(x)), of P features.

    Queries and keys of the attention read s = norm(x W_shared), its values x itself: h, s: (B, T, P), x, y: (B, T, D). Every
    norm has weights of its own. MobileBERT (Sun et al. 2020, arXiv 2004.02984, section 3) with P = D / 4 and n = 4 networks.
    """

    kind: Literal["bottleneck"] = "bottleneck"
    width: Count
    """P, features inside."""
    attention: Attention
    """The attention, whose heads divide P and which gives P features."""
    network: FeedForward
    """Each of the networks, of P features."""
    networks: Count = 1
    """n, networks one after the other."""
    norm: Norm | None = None
    """Each of the norms, over P."""
    bias: bool = False
    """Whether the projections into the bottleneck and out of it add a bias."""

    @model_validator(mode="after")
    def _reads_two_inputs(self) -> Bottleneck:
        if given := self.attention.in_the_way("two inputs"):
            raise ValueError(
                f"the attention of a bottleneck reads queries and values from two inputs: leave {' and '.join(given)} out"
            )
        return self

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.attention.mask,)

    @property
    def reads(self) -> tuple[Read, ...]:
        return self.attention.reads

    @property
    def traits(self) -> Traits:
        return replace(self.attention.traits, activation=self.network.traits.activation)

    @property
    def resizing(self) -> Resizing:
        return Resizing(network=Network(self.network.width, self.network.gated, fields=("network.width",)))

    def resolved(self, width: int) -> Self:
        return self.but(attention=self.attention.resolved(self.width))

    def of_layer(self, layer: int, depth: int) -> Self:
        return self.but(attention=self.attention.of_layer(layer, depth))

    def check(self, width: int) -> None:
        self.attention.check(self.width)
        self.network.check(self.width)
        if self.norm is not None:
            self.norm.check(self.width)

    def sketch(self, width: int) -> Sketch:
        P = number(self.width)
        inside = chain(
            fan(chain(Cell(f"narrow {P}"), Cell("queries, keys")), Cell("values")),
            Cell(f"{self.attention.title}, {self.attention.mask.words}", "mix"),
            Cell(f"{self.networks} × {self.network.title} {number(self.network.width)}"),
            Cell(f"widen {number(width)}"),
        )
        return Sketch(f"Bottleneck of {P}", flow=inside)

    def build(self, width: int, plan: Plan, name: str) -> BottleneckModule:
        from anyformer.parts.layers.bottleneck_module import BottleneckModule

        return BottleneckModule(self, width, plan, name)

    def watchable(self, width: int) -> Watchables:
        found = inside("attention", self.attention.watchable(self.width))
        for i in range(self.networks):
            found |= inside(f"networks[{i}]", self.network.watchable(self.width))
        return found

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        P, rows = self.width, shape.rows
        parts = sum((matrix(name, width, P, rows, role="replicate", bias=self.bias) for name in ENTRANCES), Tally())
        parts += matrix("widen", P, width, rows, role="replicate", bias=self.bias, fill="residual")
        inner = {f"networks.{i}": self.network.cost(P, shape, plan) for i in range(self.networks)}
        inner["attention"] = _of_wide_values(self.attention.cost(P, shape, plan), width)
        norms = (*ENTRANCES, "attention", *(f"network_{i}" for i in range(self.networks)))
        inner |= {} if self.norm is None else {f"norms.{name}": self.norm.cost(P, rows) for name in norms}
        return parts + total(inner) + Tally(own_work={"residual": added(rows * P * (1 + self.networks))})

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState | None:
        """The state of its attention."""
        return self.attention.state(self.width, batch, capacity, source, dtype, device)


ENTRANCES = ("narrow", "shared")
"""The projections of the stream: of what is added to, and of what queries and keys read."""


def _of_wide_values(tally: Tally, width: int) -> Tally:
    """The declarations of an attention whose values read `width` features."""
    weight, product = tally.own_weights["value.weight"], tally.own_work["value"]
    assert isinstance(product, Product), "a projection is a product"
    weights = {**tally.own_weights, "value.weight": replace(weight, shape=(weight.shape[0], width))}
    return replace(tally, own_weights=weights, own_work={**tally.own_work, "value": replace(product, inputs=width)})
