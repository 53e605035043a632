"""The operations that a part declares: products with weights, pairs of queries and keys, other products, element-wise work.

FLOPs, formulas, bytes moved, times and the divisions of parallelism are all read from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anyformer.operations.weight import Role

Kind = Literal["norms", "rotary", "softmax", "activations", "residual"]
"""Kinds of element-wise work."""


@dataclass(frozen=True)
class Flops:
    """Matrix-product FLOPs, 2 per multiply-accumulate: `dense` counts every query-key pair, `exact` those the mask allows.

    `no_gradient`: FLOPs that the backward pass saves, of 2 * `dense` for the gradients of both factors, because a factor takes
    no gradient (pixels, a state of zeros); negative if the backward pass computes more.
    """

    dense: int = 0
    exact: int = 0
    no_gradient: int = 0

    @property
    def backward(self) -> int:
        """FLOPs of the backward pass over every pair: a product has one for the gradient of each factor."""
        return 2 * self.dense - self.no_gradient

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.dense + other.dense, self.exact + other.exact, self.no_gradient + other.no_gradient)

    def __mul__(self, times: int) -> Flops:
        return self if times == 1 else Flops(self.dense * times, self.exact * times, self.no_gradient * times)

    @classmethod
    def even(cls, count: int, no_gradient: int = 0) -> Flops:
        """FLOPs of products that no mask concerns."""
        return cls(count, count, no_gradient)


class _Work:
    """The base of all operations; only matrix products have FLOPs."""

    @property
    def flops(self) -> Flops:
        """FLOPs of its matrix products in the forward pass."""
        return Flops()


@dataclass(frozen=True)
class Product(_Work):
    """Rows times a weight: (rows, inputs) -> (rows, outputs), 2 * rows * inputs * outputs FLOPs.

    `role`: how tensor parallelism cuts the weight; `residual`: whether the result goes into the residual stream, which ends a
    sublayer; `constant`: whether the rows take no gradient, so that the backward pass has one product instead of two. A weight
    that is block-diagonal, in so many `blocks`, has the inputs of one block, and each output reads those of its block alone.
    """

    rows: int
    inputs: int
    outputs: int
    role: Role
    residual: bool = False
    constant: bool = False
    blocks: int = 1

    @property
    def row_inputs(self) -> int:
        """The numbers that it reads of one row."""
        return self.blocks * self.inputs

    @property
    def flops(self) -> Flops:
        work = 2 * self.rows * self.inputs * self.outputs
        return Flops.even(work, no_gradient=work if self.constant else 0)

    @property
    def weight_read(self) -> int:
        """The number of parameters that it reads."""
        return self.inputs * self.outputs


@dataclass(frozen=True)
class ExpertProduct(_Work):
    """A product with one weight per expert: every token passes `chosen` of `experts` experts, and each row one of them.

    `exact_rows`: rows of tokens that fit into the capacity of an expert that computes; `rows`: with the padding up to capacity.
    The experts of a token are of `keep` of `groups` equal groups. `sent`: whether its rows go to their experts for it, and not
    for an earlier product.
    """

    rows: int
    exact_rows: int
    inputs: int
    outputs: int
    experts: int
    chosen: int
    residual: bool = False
    groups: int = 1
    keep: int = 1
    sent: bool = False
    role: ClassVar[Role] = "expert"

    @property
    def row_inputs(self) -> int:
        """The numbers that it reads of one row."""
        return self.inputs

    @property
    def flops(self) -> Flops:
        each = 2 * self.inputs * self.outputs
        return Flops(each * self.rows, each * self.exact_rows)

    @property
    def weight_read(self) -> int:
        """The number of parameters of the experts that the tokens are expected to choose, if each is chosen equally often."""
        distinct = distinct_experts(self.experts, self.chosen, self.exact_rows // self.chosen)
        return round(self.inputs * self.outputs * distinct)


def distinct_experts(experts: int, chosen: int, tokens: int) -> float:
    """X (1 - (1 - k/X)^tokens), the experts that a batch is expected to choose if each token chooses k of X evenly."""
    return experts * (1 - (1 - chosen / experts) ** tokens)


@dataclass(frozen=True)
class Pairs(_Work):
    """A product of each query with each key: `pairs` of one head of one row, `exact` of them allowed by the mask.

    `sums`: whether it sums over the features of a key (scores) or over the keys of a query (mixing the values).
    2 * batch * heads * features * pairs FLOPs. `no_gradient`: see `Flops`.
    """

    batch: int
    heads: int
    features: int
    pairs: int
    exact: int
    queries: int
    sums: Literal["features", "keys"]
    no_gradient: int = 0

    @property
    def flops(self) -> Flops:
        each = 2 * self.batch * self.heads * self.features
        return Flops(each * self.pairs, each * self.exact, self.no_gradient)


@dataclass(frozen=True)
class Contraction(_Work):
    """A product without a weight, of a recurrence or a score bias for instance, whose FLOPs the part counts."""

    count: int
    no_gradient: int = 0
    """FLOPs that the backward pass saves, of twice `count`, because a factor takes no gradient."""

    @property
    def flops(self) -> Flops:
        return Flops.even(self.count, self.no_gradient)


@dataclass(frozen=True)
class Elementwise(_Work):
    """Work on each element by itself: `dense` operations, `exact` of them on elements that the mask allows; `moved`: numbers
    read and written if no other operation is fused with it."""

    kind: Kind
    dense: int
    exact: int
    moved: int = 0


Operation = Product | ExpertProduct | Pairs | Contraction | Elementwise


SUM_BYTES = 4
"""Bytes per element of a running sum: fp32 whatever the type of the activations, because its error grows with time."""
