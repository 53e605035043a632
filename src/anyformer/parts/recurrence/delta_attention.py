"""Delta attention: a recurrent state in which a token overwrites the value of its key instead of adding to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from anyformer.describe import Count, Positive
from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.convolved_projections import convolution_cell, projections, recent_elements, recent_inputs
from anyformer.parts.recurrence.decay import Decay
from anyformer.parts.recurrence.head_outputs import heads_read, norm_and_gate
from anyformer.parts.recurrence.recurrent_work import delta_flops, recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, words
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.delta_attention_module import DeltaAttentionModule


class DeltaAttention(Sublayer):
    """S_t = (I - beta_t k_t k_t^T) diag(decay_t) S_{t-1} + beta_t k_t v_t^T, o_t = scale * q_t S_t, then gate(norm(o)) W_o.

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v: (B, T, K, E) likewise but not divided, K a
    multiple of H; beta = beta_scale * sigmoid(x W_beta): (B, T, K); S: (M, E) per value head, in fp32. Without decay:
    DeltaNet (Yang et al. 2024, arXiv 2406.06484). `scalar_decay`: gated delta net (2412.06464; Qwen3-Next: gate silu).
    `channel_decay`: Kimi Delta Attention (2510.26692; gate low-rank sigmoid). M, E are the papers' d_k, d_v. With `steps` n
    a token writes n keys, each with a value and a beta, one after the other behind one decay, and reads after the last:
    DeltaProduct (Siems et al. 2025, 2502.10297; n is its n_h), n times the work in the state.
    """

    kind: Literal["delta_attention"] = "delta_attention"
    heads: Count
    """H, heads of queries and keys."""
    value_heads: Count | None = None
    """K, heads of values, decays, betas and states, a multiple of H; H by default."""
    key_width: Count
    """M, features of a query or key head."""
    value_width: Count | None = None
    """E, features of a value head; M by default."""
    convolution: ShortConvolution | None = None
    """Convolution of queries, keys and values, each with weights of its own (the papers: kernel 4, silu)."""
    decay: Decay | None = None
    steps: Annotated[int, Field(ge=1, le=64)] = 1
    """n, keys that a token writes, one after the other (the paper: 1 to 4)."""
    beta_scale: Annotated[float, Field(gt=0, le=2)] = 1.0
    """Above 1 the state can change sign along a key: eigenvalues down to 1 - beta_scale (2: OLMo hybrid, arXiv 2411.12537)."""
    length_eps: Positive = 1e-6
    """Added to the squared lengths that queries and keys are divided by."""
    scale: Positive | None = None
    """Factor of the queries; M^-0.5 by default."""
    norm: Norm | None = None
    """Norm of each head's output, before the gate."""
    gate: Gate | None = None

    @model_validator(mode="after")
    def _grouped(self) -> DeltaAttention:
        if self.states % self.heads:
            raise ValueError(
                f"value_heads must be a multiple of heads, got value_heads = {self.states} and heads = {self.heads}"
            )
        return self

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return self.heads, self.states

    @property
    def states(self) -> int:
        """K."""
        return self.heads if self.value_heads is None else self.value_heads

    @property
    def columns(self) -> int:
        """E."""
        return self.key_width if self.value_width is None else self.value_width

    @property
    def counts(self) -> dict[str, int]:
        """Heads of each projection that may be convolved, those of all steps."""
        return {"query": self.heads, "key": self.steps * self.heads, "value": self.steps * self.states}

    @property
    def widths(self) -> dict[str, int]:
        """Features, over all heads and steps, of each projection that may be convolved."""
        keys = self.heads * self.key_width
        return {"query": keys, "key": self.steps * keys, "value": self.steps * self.states * self.columns}

    def sketch(self, width: int) -> Sketch:
        H, M, K, E = self.heads, self.key_width, self.states, self.columns
        projected = fan(heads_cell("Q", H, M), heads_cell("K", H, M), heads_cell("V", K, E))
        decay = "" if self.decay is None else f" · {words(self.decay)}"
        read = fan(chain(projected, convolution_cell(self.convolution)), Cell(f"β{decay}", "memory"))
        state = Cell(f"state {K} × ({M} × {E}), delta rule", "memory")
        title = "Gated delta net" if self.decay else "Delta net"
        return heads_read(title, chain(read, state), self.norm, self.gate, width)

    @property
    def traits(self) -> Traits:
        return Traits("delta")

    @property
    def scale_of_queries(self) -> float:
        """The factor of the queries, as a number."""
        return self.key_width**-0.5 if self.scale is None else self.scale

    def narrowed(self, width: int, ways: int) -> Self | None:
        # The features of a projection are those of all heads, step after step: parts of them in order are of other heads.
        if self.heads % ways or self.steps > 1:
            return None
        return self.but(heads=self.heads // ways, value_heads=self.states // ways, value_width=self.columns)

    def resolved(self, width: int) -> Self:
        return self.but(value_heads=self.states, value_width=self.columns, scale=self.scale_of_queries)

    def build(self, width: int, plan: Plan, name: str) -> DeltaAttentionModule:
        from anyformer.parts.recurrence.delta_attention_module import DeltaAttentionModule

        return DeltaAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, K, M, E = shape.batch, shape.batch * shape.length, self.states, self.key_width, self.columns
        recent = recent_elements(self.widths, self.convolution, B) * plan.activation_bytes
        parts, state = projections(self.widths, self.convolution, width, shape), B * K * M * E * SUM_BYTES + recent
        parts += matrix("beta", width, self.steps * K, rows, role="column")
        inner = {"beta_activation": ACTIVATIONS["sigmoid"].cost(self.steps * K, rows)}
        parts += matrix("output", K * E, width, rows, role="row", fill="residual")
        if self.decay is not None:
            inner["decay"] = self.decay.cost(width, K, M, rows)
        inner |= norm_and_gate(self.norm, self.gate, width, K, E, rows)
        length = self.steps * shape.length
        products = delta_flops(B, K, self.heads, M, E, length, plan.chunk, channels=self._by_channel)
        return parts + products + total(inner) + Tally(own_state=recurrent(state, shape, K))

    @property
    def _by_channel(self) -> bool:
        return self.decay is not None and self.decay.kind == "channel_decay"

    def watchable(self, width: int) -> Watchables:
        H, K, M, E = self.heads, self.states, self.key_width, self.columns
        found = {
            "query": value("BTHM", "queries", H=H, M=M),
            "key": value("BTnM", "keys, of each step those of all heads", n=self.counts["key"], M=M),
            "value": value("BTnE", "values, of each step those of all heads", n=self.counts["value"], E=E),
            "beta": value("BTn", "how much of a value is written, of each step and head", n=self.steps * K),
        }
        if self.decay is not None:
            found["log_decay"] = value("BTKn", "log-decays", K=K, n=M if self._by_channel else 1)
        found |= state_seen("BHGME", H=H, G=K // H, M=M, E=E)
        return found | {"mixed": value("BTKE", "what each head read of its state", K=K, E=E)} | put_out_seen((K, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * K * M * E sums and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        shape = (batch, self.heads, self.states // self.heads, self.key_width, self.columns)
        recent = recent_inputs(self.widths, self.convolution, batch, dtype, device)
        return RecurrentState.empty(*shape, device=device, convolutions=recent)
