"""Learned decays of a recurrent state: the share of the past that a token passes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Positive, Registry, Value
from anyformer.operations import Tally, Weight, matrix

if TYPE_CHECKING:
    from anyformer.parts.recurrence.decay_module import DecayModule


class Decay(Value):
    """log-decays of a state, (B, T, H) or (B, T, H, E), of a stream (B, T, D); never above 0."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def build(self, width: int, heads: int, key_width: int) -> DecayModule:
        """The module."""
        raise NotImplementedError

    def cost(self, width: int, heads: int, key_width: int, rows: int) -> Tally:
        """Its weights, and its products with `rows` rows."""
        raise NotImplementedError


class ScalarDecay(Decay):
    """One number per head and token: log-decay -exp(A_log) * softplus(x W + dt_bias), W: (D, H), A_log, dt_bias: (H,).

    Mamba-2 (Dao & Gu 2024, arXiv 2405.21060), gated delta nets (Yang et al. 2024, 2412.06464; Qwen3-Next, Qwen3.5, OLMo
    hybrid). W is the papers' W_alpha or W_a.
    """

    kind: Literal["scalar_decay"] = "scalar_decay"

    def build(self, width: int, heads: int, key_width: int) -> DecayModule:
        from anyformer.parts.recurrence.decay_module import DecayModule

        return DecayModule(width, heads, 1, rank=None, bound=None)

    def cost(self, width: int, heads: int, key_width: int, rows: int) -> Tally:
        return _cost(width, heads, heads, rows, rank=None, bound=None)


class ChannelDecay(Decay):
    """One number per head, token and key feature: log-decay -exp(A_log) * softplus(x W + dt_bias).

    W: (D, H * E), dt_bias: (H * E,), A_log: (H,). Kimi Delta Attention (arXiv 2510.26692): W = W_down W_projection through
    `rank` = E features. With a `bound` b the log-decay is -b * sigmoid(exp(A_log) * (x W + dt_bias)), never below -b (b = 5 in
    GLM's and Bailing's hybrids).
    """

    kind: Literal["channel_decay"] = "channel_decay"
    rank: Count | None = None
    """Features that W passes through; None projects directly."""
    bound: Positive | None = None

    def build(self, width: int, heads: int, key_width: int) -> DecayModule:
        from anyformer.parts.recurrence.decay_module import DecayModule

        return DecayModule(width, heads, key_width, rank=self.rank, bound=self.bound)

    def cost(self, width: int, heads: int, key_width: int, rows: int) -> Tally:
        return _cost(width, heads, heads * key_width, rows, rank=self.rank, bound=self.bound)


def _cost(width: int, heads: int, outputs: int, rows: int, *, rank: int | None, bound: float | None) -> Tally:
    parts = matrix("down", width, rank, rows, role="replicate") if rank else Tally()
    parts += matrix("projection", rank or width, outputs, rows, role="column")
    rate = Weight((heads,), "column", "log_rate" if bound is None else "zeros")
    return parts + Tally({"A_log": rate, "dt_bias": Weight((outputs,), "column", "time_step")})
