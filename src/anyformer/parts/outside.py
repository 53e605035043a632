"""What a kernel from outside has to compute of an attention: transformers' functions of attention, or an engine's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutsideAttention:
    """softmax(cap(q k^T * scale)) v over keys of the past, cap(s) = softcap * tanh(s / softcap).

    Given queries (B, H, T, E), keys (B, K, S, E) and values (B, K, S, U), which are placed already.
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
    unknown: tuple[str, ...] = ()
    """What of the attention such kernels do not know; then none can compute it."""
