"""TTT-Linear: heads whose state is a linear map that learns while it reads, by test-time training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field

from anyformer.describe import Positive
from anyformer.operations import Operation, Shape, Tally, Watchables, Weight, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import gated, heads_cell, rotary_cell
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.norms.layer_norm import LayerNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.recurrence.recurrent_heads import RecurrentHeads
from anyformer.parts.recurrence.recurrent_work import recurrent, training_flops
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.ttt_linear_module import TTTLinearModule


class TTTLinear(RecurrentHeads):
    """o_t = q_t + norm(q_t W_t + b_t), W_t = W - share_t * sum of rate_s dloss_s/dW over the mini-batch up to t, b_t likewise.

    loss_s = |k_s + norm(k_s W + b) - v_s|^2 / 2 per head of width E, with the W (E, E) and b (E,) of behind the mini-batch
    before, the first ones learned; norm: LayerNorm, each head with a gain and a bias of its own; share_t = max(0, 1 / (i + 1) +
    place_i) for the i-th token of a mini-batch, place (n,); rate_s = base_rate / E * sigmoid(x W_rate + b_rate): (B, T, H); q
    and k rotated by i. Then y = gate(norm of all heads(o)) W_output. (Sun et al. 2024, arXiv 2407.04620.) A mini-batch is n
    tokens of a document that follow one another: part of the mathematics, and not of the plan, as chunks are. The state is the
    change of W and b since the start and the sum of the mini-batch that is not whole, in fp32. Mini-batches of 16 to 64 tokens
    often use less than 5 % of a GPU's FLOPs (Zhang et al. 2025, 2505.23884, who take thousands).
    """

    kind: Literal["ttt_linear"] = "ttt_linear"
    minibatch: Annotated[int, Field(ge=1)] = 16
    """Tokens (n) after which the map that losses are of moves on; the paper's b."""
    base_rate: Positive = 1.0
    """The learning rate where the sigmoid is 1; the paper's eta_base."""
    rotary: Rotary | None = None
    """Rotation of queries and keys by their place in the mini-batch (the paper's Transformer backbone)."""
    eps: Positive = 1e-6
    """eps of the norm in the loss and in the output."""
    norm: Norm | None = None
    """Norm of all heads side by side, before the gate (the paper: LayerNorm)."""
    gate: Gate | None = None
    """Gate of the output (the paper's Mamba backbone: GELU)."""

    @property
    def inner_norm(self) -> LayerNorm:
        """The norm of each head."""
        return LayerNorm(eps=self.eps)

    def narrowed(self, width: int, ways: int) -> Self | None:
        if self.heads % ways or self.norm is not None:
            return None
        return self.but(heads=self.heads // ways, head_width=self.width_of_head(width))

    def sketch(self, width: int) -> Sketch:
        H, E = self.heads, self.width_of_head(width)
        projected = chain(fan(heads_cell("Q", H, E), heads_cell("K", H, E)), rotary_cell(self.rotary))
        state = Cell(f"map {H} × ({E} × {E}), a step of descent per {self.minibatch} tokens", "memory")
        read = chain(fan(projected, heads_cell("V", H, E), Cell(f"rates {H}", "memory")), state)
        norm = None if self.norm is None else Cell("norm of all heads", "norm")
        mixed = gated(chain(read, Cell("norm of each head, plus Q", "norm"), norm), self.gate)
        return Sketch("TTT-Linear", biases(self.bias, 4), chain(mixed, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("TTT-Linear", None if self.rotary is None else "RoPE")

    def check(self, width: int) -> None:
        E = self.width_of_head(width)
        if self.rotary is not None:
            self.rotary.rotated(E)
        if self.norm is not None:
            self.norm.check(self.heads * E)

    def build(self, width: int, plan: Plan, name: str) -> TTTLinearModule:
        from anyformer.parts.recurrence.ttt_linear_module import TTTLinearModule

        return TTTLinearModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, E = shape.batch, shape.rows, self.heads, self.width_of_head(width)
        parts = self.projections(width, rows) + matrix("rate", width, H, rows, role="column", bias=True)
        weights = {
            "initial_weight": Weight((H, E, E), "column", "matrix", linear=False),
            "initial_bias": Weight((H, E), "column", "zeros", linear=False),
            "place": Weight((self.minibatch,), "replicate", "zeros"),
            "inner_norm.weight": Weight((H * E,), "column", "ones"),
            "inner_norm.bias": Weight((H * E,), "column", "zeros"),
        }
        own: dict[str, Operation] = {"inner_norm": self.inner_norm.work(H * E, rows, groups=H)}
        if self.rotary is not None:
            own["rotary"] = rotated(2 * rows * H * self.rotary.rotated(E))
        inner = {} if self.norm is None else {"norm": self.norm.cost(H * E, rows)}
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, H, E, rows)
        state = 2 * B * H * (E + 1) * E * SUM_BYTES
        learning = training_flops(B, H, E, shape.length, self.minibatch)
        return parts + learning + total(inner) + Tally(weights, own, recurrent(state, shape, H))

    def state_seen(self, width: int) -> Watchables:
        E = self.width_of_head(width)
        return state_seen("BnHME", n=2, H=self.heads, M=E + 1, E=E)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """2 * B * H * (E + 1) * E sums, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        E = self.width_of_head(width)
        return RecurrentState.empty(batch, 2, self.heads, E + 1, E, device=device)
