"""Delta attention: a recurrent state in which a token overwrites the value of its key instead of adding to it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.describe import Count, Positive
from anyformer.operations import Shape, Tally, matrix, total
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, RecurrentState
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.decay import Decay
from anyformer.parts.recurrence.recurrence import delta_flops, delta_recurrence, exact, exactly, recurrent
from anyformer.parts.recurrence.recurrent_heads import heads_first, split_heads, time_first
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number, words
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

CONVOLVED = ("query", "key", "value")


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
    def widths(self) -> dict[str, int]:
        """Features, over all heads and steps, of each projection that may be convolved."""
        keys = self.heads * self.key_width
        return {"query": keys, "key": self.steps * keys, "value": self.steps * self.states * self.columns}

    def sketch(self, width: int) -> Sketch:
        H, M, K, E = self.heads, self.key_width, self.states, self.columns
        projected = fan(heads_cell("Q", H, M), heads_cell("K", H, M), heads_cell("V", K, E))
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        decay = "" if self.decay is None else f" · {words(self.decay)}"
        read = fan(chain(projected, convolved), Cell(f"β{decay}", "memory"))
        state = Cell(f"state {K} × ({M} × {E}), delta rule", "memory")
        norm = None if self.norm is None else Cell("norm of each head", "norm")
        mixed = gated(chain(read, state, norm), self.gate)
        return Sketch("Gated delta net" if self.decay else "Delta net", flow=chain(mixed, Cell(f"output {number(width)}")))

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
        return DeltaAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, K, M, E = shape.batch, shape.batch * shape.length, self.states, self.key_width, self.columns
        parts, inner, state = Tally(), {}, B * K * M * E * SUM_BYTES
        for name, features in self.widths.items():
            parts += matrix(name, width, features, rows, role="column")
            if self.convolution is not None:
                inner[f"{name}_convolution"] = self.convolution.cost(features, rows)
                state += self.convolution.state_elements(features, B) * plan.activation_bytes
        parts += matrix("beta", width, self.steps * K, rows, role="column")
        parts += matrix("output", K * E, width, rows, role="row", fill="residual")
        if self.decay is not None:
            inner["decay"] = self.decay.cost(width, K, M, rows)
        if self.norm is not None:
            inner["norm"] = self.norm.cost(E, rows * K)
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, K, E, rows)
        length = self.steps * shape.length
        products = delta_flops(B, K, self.heads, M, E, length, plan.chunk, channels=self._by_channel)
        return parts + products + total(inner) + Tally(own_state=recurrent(state, shape, K))

    @property
    def _by_channel(self) -> bool:
        return self.decay is not None and self.decay.kind == "channel_decay"

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * K * M * E sums and the convolutions' latest inputs, for any capacity."""
        convolution, H = self.convolution, self.heads
        recent = (
            {} if convolution is None else {name: convolution.state(w, batch, dtype, device) for name, w in self.widths.items()}
        )
        shape = (batch, H, self.states // H, self.key_width, self.columns)
        return RecurrentState.empty(*shape, device=device, convolutions=recent)


class DeltaAttentionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, delta: DeltaAttention, width: int, plan: Plan) -> None:
        super().__init__()
        self.delta, self.chunk = delta, plan.chunk
        K, E = delta.states, delta.columns
        for name, features in delta.widths.items():
            self.add_module(name, nn.Linear(width, features, bias=False))
            if delta.convolution is not None:
                self.add_module(f"{name}_convolution", delta.convolution.build(features))
        self.beta = nn.Linear(width, delta.steps * K, bias=False)
        self.decay = delta.decay.build(width, K, delta.key_width) if delta.decay else None
        self.norm = delta.norm.build(E) if delta.norm else nn.Identity()
        self.gate = delta.gate.module(width, K, E) if delta.gate else None
        self.output = nn.Linear(K * E, width, bias=False)
        self.scale = delta.scale_of_queries

    def extra_repr(self) -> str:
        d = self.delta
        return f"heads={d.heads}, value_heads={d.states}, widths={d.key_width}, {d.columns}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (self._projected(name, x_BTD, context, state) for name in CONVOLVED)
        log_decay = None if self.decay is None else self.decay(x_BTD).flatten(2)
        mixed_BTKE = self.norm(self.recur(query, key, value, self.beta(x_BTD), log_decay, context=context, state=state))
        if self.gate is not None:
            mixed_BTKE = self.gate(x_BTD, mixed_BTKE)
        return self.output(mixed_BTKE.flatten(2))  # type: ignore[no-any-return]

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: Tensor,
        log_decay: Tensor | None = None,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads, (B, T, K, E), of projected and convolved inputs, each (B, T, features of all heads)."""
        d, segments = self.delta, context.segments
        beta_BTK = d.beta_scale * exact(beta).sigmoid()
        log_decay_BTKM = None if log_decay is None else split_heads(log_decay, d.states)
        if context.valid is not None:
            # Padding writes nothing and decays nothing.
            beta_BTK = beta_BTK.masked_fill(~context.valid[..., None], 0)
            if log_decay_BTKM is not None:
                log_decay_BTKM = log_decay_BTKM.masked_fill(~context.valid[..., None, None], 0)
        if d.steps > 1:
            key, value, beta_BTK = (torch.unflatten(y, 2, (d.steps, -1)).flatten(1, 2) for y in (key, value, beta_BTK))
            query = self._spread(query, last=True)
            log_decay_BTKM = None if log_decay_BTKM is None else self._spread(log_decay_BTKM, last=False)
            segments = None if segments is None else segments.repeat_interleave(d.steps, 1)
        with exactly(query):
            q, k = (self._unit(split_heads(exact(y), d.heads)) for y in (query, key))
            mixed, sums = delta_recurrence(
                heads_first(q * self.scale, d.heads),
                heads_first(k, d.heads),
                heads_first(split_heads(exact(value), d.states), d.heads),
                heads_first(beta_BTK[..., None], d.heads),
                None if log_decay_BTKM is None else heads_first(log_decay_BTKM, d.heads),
                None if state is None else state.sums.to(q.dtype),
                chunk=self.chunk,
                segments=segments,
            )
            if state is not None:
                state.sums.copy_(sums)
        return time_first(mixed)[:, d.steps - 1 :: d.steps].to(query.dtype)

    def _spread(self, x: Tensor, *, last: bool) -> Tensor:
        """x (B, T, ...) at the first or the last of the steps of each token, zeros at the others: (B, n * T, ...)."""
        rest = torch.zeros_like(x)[:, :, None].expand(-1, -1, self.delta.steps - 1, *x.shape[2:])
        parts = (rest, x[:, :, None]) if last else (x[:, :, None], rest)
        return torch.cat(parts, 2).flatten(1, 2)

    def _projected(self, name: str, x_BTD: Tensor, context: Context, state: RecurrentState | None) -> Tensor:
        """The projection of this name, convolved if there are convolutions."""
        y: Tensor = self.get_submodule(name)(x_BTD)
        if self.delta.convolution is None:
            return y
        recent = None if state is None else state.convolutions[name]
        return self.get_submodule(f"{name}_convolution")(y, context, recent)  # type: ignore[no-any-return]

    def _unit(self, x_BTHM: Tensor) -> Tensor:
        """x divided by its length."""
        return x_BTHM * torch.rsqrt(x_BTHM.square().sum(-1, keepdim=True) + self.delta.length_eps)
