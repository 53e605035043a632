"""What every attention over heads shares: the description of heads and projections, and the module that holds them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.parts.attend import attend
from anyformer.parts.context import Context, Visible
from anyformer.parts.noise import Dropout
from anyformer.parts.norm import Norm
from anyformer.plan import Plan
from anyformer.tally import Flops, Shape, Tally, matrix, total

Projection = Literal["query", "key", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("query", "key", "value", "output")
Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]


class Heads(Value):
    """What every attention over heads shares: how many, how wide, with which biases, norms and scales."""

    heads: Count
    """H, query heads."""
    kv_heads: Count | None = None
    """K, heads of keys and values, a divisor of H: H is multi-head (the default), 1 multi-query, between grouped-query."""
    head_width: Count | None = None
    """E, features of a head; D / H by default."""
    bias: tuple[Projection, ...] = ()
    """Projections that add a bias."""
    qk_norm: Norm | None = None
    """Norm over the features of each query and key head, before rotation."""
    scale: Annotated[float, Field(gt=0)] | None = None
    """Factor of the scores; E^-0.5 by default."""
    softcap: Annotated[float, Field(gt=0)] | None = None
    """Bound c of the scores: c * tanh(s / c)."""
    dropout: Rate = 0.0
    """Share of attention weights dropped in training."""

    @field_validator("bias")
    @classmethod
    def _in_order(cls, names: tuple[Projection, ...]) -> tuple[Projection, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"names a projection twice: {list(names)}")
        return tuple(name for name in PROJECTIONS if name in names)

    @model_validator(mode="after")
    def _grouped(self) -> Heads:
        if self.heads % self.groups:
            raise ValueError(f"kv_heads must divide heads, got kv_heads = {self.groups} and heads = {self.heads}")
        return self

    @property
    def groups(self) -> int:
        """K."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def width_of_head(self, width: int) -> int:
        """E."""
        if self.head_width is not None:
            return self.head_width
        if width % self.heads:
            raise ValueError(
                f"heads must divide the width or head_width be given, got heads = {self.heads} and width = {width}"
            )
        return width // self.heads

    def projections(self, width: int, rows: int, source_rows: int) -> Tally:
        """Weights and FLOPs of the four projections and the norms."""
        E = self.width_of_head(width)
        H, K = self.heads * E, self.groups * E
        parts = (
            matrix("query", width, H, rows, role="column", bias="query" in self.bias)
            + matrix("key", width, K, source_rows, role="column", bias="key" in self.bias)
            + matrix("value", width, K, source_rows, role="column", bias="value" in self.bias)
            + matrix("output", H, width, rows, role="row", bias="output" in self.bias, fill="residual")
        )
        if self.qk_norm is not None:
            parts = parts + total({"query_norm": self.qk_norm.cost(E), "key_norm": self.qk_norm.cost(E)})
        return parts

    def products(self, width: int, shape: Shape, dense: int, exact: int) -> Tally:
        """FLOPs of scores and mixing over so many (query, key) pairs per head and row."""
        per_pair = 2 * shape.batch * self.heads * self.width_of_head(width)
        work = Flops(per_pair * dense, per_pair * exact)
        return Tally(flops={"scores": work, "mix": work})


class HeadsModule(nn.Module):
    """The four projections, separate in storage, the norms of queries and keys, and the attention kernel."""

    def __init__(self, heads: Heads, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.heads, self.plan = heads, plan
        self.head_width = E = heads.width_of_head(width)
        self.scale = E**-0.5 if heads.scale is None else heads.scale
        self.query = nn.Linear(width, heads.heads * E, bias="query" in heads.bias)
        self.key = nn.Linear(width, heads.groups * E, bias="key" in heads.bias)
        self.value = nn.Linear(width, heads.groups * E, bias="value" in heads.bias)
        self.output = nn.Linear(heads.heads * E, width, bias="output" in heads.bias)
        self.query_norm = heads.qk_norm.build(E) if heads.qk_norm else nn.Identity()
        self.key_norm = heads.qk_norm.build(E) if heads.qk_norm else nn.Identity()
        self.dropout = Dropout(heads.dropout, f"{name}.dropout")

    def extra_repr(self) -> str:
        return f"heads={self.heads.heads}, kv_heads={self.heads.groups}, head_width={self.head_width}"

    def queries(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, H, E)."""
        return self.query_norm(self._split(self.query(x_BTD)))  # type: ignore[no-any-return]

    def keys(self, x_BSD: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, K, E)."""
        return self.key_norm(self._split(self.key(x_BSD)))  # type: ignore[no-any-return]

    def values(self, x_BSD: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, K, E)."""
        return self._split(self.value(x_BSD))

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, heads * E) -> (B, T, heads, E)."""
        return x.view(*x.shape[:-1], -1, self.head_width)

    def mix(self, q_BHTE: Tensor, k_BKSE: Tensor, v_BKSE: Tensor, visible: Visible, context: Context) -> Tensor:
        """Attend, put the heads side by side, project: (B, T, D)."""
        drops = self.training and self.dropout.rate > 0
        mixed_BHTE = attend(
            q_BHTE,
            k_BKSE.to(q_BHTE.dtype),
            v_BKSE.to(q_BHTE.dtype),
            visible,
            scale=self.scale,
            softcap=self.heads.softcap,
            dropout=(lambda share: self.dropout(share, context.noise)) if drops else None,
            kernel=self.plan.attention,
        )
        return self.output(mixed_BHTE.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]
