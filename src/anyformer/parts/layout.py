"""What a sublayer tells about its weights, so that those of one can become those of another without reading names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anyformer.parts.positions.rotary import Rotary


@dataclass(frozen=True)
class NetworkLayout:
    """A feed-forward network or a mixture of them: the names of its weights by what they are."""

    width: int
    """F."""
    function: Mapping[str, object]
    """The fields that decide what a network computes beside its weights, by name."""
    weights: Mapping[str, str]
    """Projection, or the bias of one, -> the name of the weight in the sublayer; stacked in a mixture."""
    normed: bool = False
    """Whether a norm or a threshold runs over its F features, so that none can be added without changing the others."""
    experts: int | None = None
    """X; None for a single network."""
    unequal: tuple[str, ...] = ()
    """The reasons why a mixture of equal experts does not compute what one of them does, each with its remedy."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """The names of the shared expert's weights, likewise."""
    shared_width: int | None = None
    """F of the shared expert; None without one."""


@dataclass(frozen=True)
class HeadsLayout:
    """Attention over heads with projections of their own: q = x W_q, k = x W_k, v = x W_v."""

    heads: int
    """H."""
    kv_heads: int
    """K."""
    head_width: int
    """E."""
    value_width: int
    """U."""
    scale: float
    """Factor of the scores."""
    value_scale: float
    """Factor of the values."""
    rotary: Rotary | None
    query: str
    """The names of the four weights."""
    key: str
    value: str
    output: str
    beyond: tuple[str, ...] = ()
    """The fields set that attention through a latent has no place for."""


@dataclass(frozen=True)
class OutsideAttention:
    """What a kernel from outside computes: softmax(cap(q k^T * scale)) v over keys of the past.

    cap(s) = softcap * tanh(s / softcap). Queries (B, H, T, E), keys (B, K, S, E) and values (B, K, S, U) are placed already.
    """

    heads: int
    """H."""
    kv_heads: int
    """K."""
    head_width: int
    """E."""
    value_width: int
    """U."""
    scale: float
    window: int | None
    """The number of latest positions that a query sees, its own included; None: all."""
    softcap: float | None
    dropped: float
    """Share of the weights that training drops."""
    whole: tuple[str, ...] = ()
    """What needs all heads in one process."""
    unknown: tuple[str, ...] = ()
    """What of the attention such kernels do not know; then none can compute it."""


@dataclass(frozen=True)
class LatentLayout:
    """Attention through a latent: k = [c W_uk, rotated x W_kr], v = c W_uv, c = x W_dkv."""

    heads: int
    """H."""
    kv_rank: int
    """P."""
    q_rank: int | None
    """Features of the queries' latent; None if queries are projected directly."""
    nope_width: int
    """E - R."""
    rope_width: int
    """R."""
    value_width: int
    """U."""
    scale: float
    """Factor of the scores."""
    rotary: Rotary | None
    query_down: str
    """The names of the weights."""
    query_up: str
    kv_down: str
    rope_key: str
    key_up: str
    value_up: str
    output: str
    inexact: tuple[str, ...] = ()
    """The fields set whose effect no weights undo."""


@dataclass(frozen=True)
class WeightLayout:
    """The ways in which a sublayer's weights can be read; None where they cannot be read in that way."""

    network: NetworkLayout | None = None
    heads: HeadsLayout | None = None
    latent: LatentLayout | None = None
    speaks: str | None = None
    """Why its output is not 0 where all its weights that write to the stream are; None if it is."""
