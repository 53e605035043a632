"""Ways of choosing the keys of each query: DeepSeek's lightning indexer, and the choice of an earlier layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Registry
from anyformer.operations import Elementwise, Operation, Pairs, Shape, Tally, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.call.shared import Read
from anyformer.parts.masks.mask import Mask
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Drawn, Sketch, chain

if TYPE_CHECKING:
    from anyformer.parts.attention.indexer_module import IndexerModule, KeyChoiceModule, SharedIndexModule


CHOSEN = "chosen keys"
"""Name in `Context.shared` of the `Chosen` keys of an attention's queries."""


class KeyChoice(Drawn):
    """The base of ways of choosing keys: each query attends to at most k of the keys that its mask allows."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    keep: Count = 2048
    """k, keys of a query; all that it sees if they are no more."""

    @property
    def index_width(self) -> int:
        """Features of the index key that the decode state holds of each position; 0 without one."""
        return 0

    @property
    def reads(self) -> tuple[Read, ...]:
        """What it reads of earlier layers."""
        return ()

    @property
    def leaves(self) -> Mapping[str, int]:
        """What it leaves for later layers."""
        return {}

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def build(self, width: int, query_width: int, name: str) -> KeyChoiceModule:
        """The module; `query_width`: features of what queries are made of; `name`: the path of its attention."""
        raise NotImplementedError

    def cost(self, width: int, query_width: int, mask: Mask, shape: Shape) -> Tally:
        """Its weights and operations."""
        raise NotImplementedError


class Indexer(KeyChoice):
    """The k keys of the greatest index score, I_ts = sum_j w_tj relu(q_tj . k_s) (DeepSeek-V3.2, arXiv 2512.02556, 2.1).

        q = rotate(c W_q): (B, T, J, E), c: latent of the queries; k = rotate(norm(x W_k)): (B, S, E), w = x W_w (J E)^-0.5

    The choice has no gradient, and x and c none through it. What trains it is the `index_loss` of the objective, the mean over
    queries of KL(p || softmax(I)) over the chosen keys, p the mean of the attention weights of all heads (the paper's equations
    3 and 4; with k >= S it is its dense warm-up). The paper's H^I is J = heads, d^I is E = head_width.
    """

    kind: Literal["indexer"] = "indexer"
    heads: Count = 64
    head_width: Count = 128
    norm: Norm | None = None
    """Norm of the index keys (DeepSeek: LayerNorm, eps 1e-6)."""
    rotary: Rotary | None = None
    """Rotation of index queries and keys (DeepSeek: of half of the features, pairs in halves)."""

    def sketch(self, width: int) -> Sketch:
        norm = None if self.norm is None else Cell("norm", "norm")
        flow = chain(norm, Cell(f"index scores {self.heads} × {self.head_width}"), Cell(f"best {self.keep:,} keys", "choice"))
        return Sketch("Lightning indexer", (), flow)

    @property
    def index_width(self) -> int:
        return self.head_width

    @property
    def leaves(self) -> Mapping[str, int]:
        return {CHOSEN: self.keep}

    def check(self, width: int) -> None:
        if self.rotary is not None:
            self.rotary.rotated(self.head_width)
        if self.norm is not None:
            self.norm.check(self.head_width)

    def build(self, width: int, query_width: int, name: str) -> IndexerModule:
        from anyformer.parts.attention.indexer_module import IndexerModule

        return IndexerModule(self, width, query_width, name)

    def cost(self, width: int, query_width: int, mask: Mask, shape: Shape) -> Tally:
        B, T, J, E, rows = shape.batch, shape.length, self.heads, self.head_width, shape.rows
        parts = matrix("query", query_width, J * E, rows, role="replicate", constant=True)
        parts += matrix("key", width, E, rows, role="replicate", constant=True)
        parts += matrix("weights", width, J, rows, role="replicate", constant=True, sensitive=True)
        pairs, exact, chosen = T * shape.keys, mask.pairs(shape), T * min(self.keep, shape.keys)
        work = index_work(B, J, E, pairs, exact, chosen, T)
        if self.rotary is not None:
            work["rotary"] = rotated(rows * self.rotary.rotated(E) * (J + 1))
        inner = {} if self.norm is None else {"norm": self.norm.cost(E, rows)}
        return parts + Tally(own_work=work) + total(inner)


def index_work(
    batch: int, heads: int, features: int, pairs: int, exact: int, chosen: int, queries: int
) -> dict[str, Operation]:
    """The work of index scores of `pairs` queries and keys of a row, `exact` of them allowed.

    Of the `chosen` pairs alone the backward pass computes scores again, and gradients: of queries and keys, or weights.
    """
    each, saved = 4 * batch * heads, 6 * batch * heads * features * chosen
    no_gradient = each * features * pairs - saved
    return {
        "scores": Pairs(batch, heads, features, pairs, exact, queries, "features", no_gradient=no_gradient),
        "sum": Pairs(batch, 1, heads, pairs, exact, queries, "features", no_gradient=each * pairs - each // 2 * chosen),
        "relu": Elementwise("activations", batch * heads * pairs, batch * heads * exact),
    }


class SharedIndex(KeyChoice):
    """The keys that the latest layer of another variant chose, for the same queries (GLM-5; IndexCache, arXiv 2603.12201).

    Only the attention of the layer with the indexer trains it.
    """

    kind: Literal["shared_index"] = "shared_index"
    variant: str
    """The variant whose latest layer before this one has the indexer."""

    def sketch(self, width: int) -> Sketch:
        return Sketch(f"Keys chosen by the latest {self.variant} layer")

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(CHOSEN, self.variant, size=self.keep),)

    def build(self, width: int, query_width: int, name: str) -> SharedIndexModule:
        from anyformer.parts.attention.indexer_module import SharedIndexModule

        return SharedIndexModule(self)

    def cost(self, width: int, query_width: int, mask: Mask, shape: Shape) -> Tally:
        return Tally()
