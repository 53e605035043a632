"""sLSTM: an LSTM with exponential gates, whose heads read what they gave at the token before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.recurrent_work import recurrent, slstm_flops
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Resizing, Sublayer, Traits, head_width
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.slstm_module import SLSTMModule


GATES: dict[str, float] = {"cell_input": 0.0, "input_gate": 0.0, "forget_gate": 4.0, "output_gate": 0.0}
"""What a token gives, and where its biases start: at first a step keeps 98 % (the reference: 5 to -7 over the features)."""

FUNCTIONS = {"cell_input": "tanh", "forget_gate": "sigmoid", "output_gate": "sigmoid"}
"""What is computed of some of them, as work; exponentials of the recurrence are part of its products."""


class SLSTM(Sublayer):
    """c_t = f c_{t-1} + i tanh(z), n_t = f n_{t-1} + i, h_t = sigmoid(o) c_t / n_t, i = exp(i'), f = sigmoid(f'); y = norm(h).

    z, i', f', o = x_t W + h_{t-1} R + b per feature of H heads of width E = D / H: (B, T, H, E), W and R block-diagonal by
    head, (H, E, 4 E) for all four; i' and f' of x behind a short convolution. State: c, n, h and the logarithm m that c and n
    are scaled by, D numbers each, in fp32. (Beck et al. 2024, arXiv 2405.04517, sections 2.2 and 2.3.) As h_{t-1} R stands
    inside the gates, tokens cannot be computed in parallel: a call of T tokens takes T steps one after the other, forward and
    backward. R starts at 0, as in the reference. There is no output matrix: a feed-forward network follows.
    """

    kind: Literal["slstm"] = "slstm"
    heads: Count
    """H, blocks of all matrices."""
    convolution: ShortConvolution | None = None
    """Convolution before the input and the forget gate (the paper: kernel 4, silu)."""
    norm: Norm | None = None
    """Norm of all heads side by side (the paper: LayerNorm of each head)."""

    @property
    def resizing(self) -> Resizing:
        return Resizing(self.heads)

    def sketch(self, width: int) -> Sketch:
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        gates = chain(convolved, Cell(f"input and forget gate, {self.heads} blocks", "memory"))
        read = fan(Cell(f"z and output gate, {self.heads} blocks", "pointwise"), gates)
        state = Cell(f"state {number(width)}, gates read the last output", "memory")
        norm = None if self.norm is None else Cell("norm of all heads", "norm")
        return Sketch("sLSTM", flow=chain(read, state, norm))

    @property
    def traits(self) -> Traits:
        return Traits("sLSTM")

    def check(self, width: int) -> None:
        head_width(width, self.heads, None)
        if self.norm is not None:
            self.norm.check(width)

    def build(self, width: int, plan: Plan, name: str) -> SLSTMModule:
        from anyformer.parts.recurrence.slstm_module import SLSTMModule

        return SLSTMModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, E = shape.batch, shape.rows, self.heads, head_width(width, self.heads, None)
        parts, inner, state = Tally(), {}, 4 * B * width * SUM_BYTES
        for name, start in GATES.items():
            parts += matrix(name, width, width, rows, role="replicate", groups=H)
            parts += Tally({f"{name}.bias": Weight((width,), "replicate", start)})
        parts += Tally({"recurrent": Weight((H, E, 4 * E), "replicate", "zeros", linear=False)})
        if self.convolution is not None:
            inner["convolution"] = self.convolution.cost(width, rows)
            state += self.convolution.state_elements(width, B) * plan.activation_bytes
        if self.norm is not None:
            inner["norm"] = self.norm.cost(width, rows)
        for name, function in FUNCTIONS.items():
            inner[f"{name}_activation"] = ACTIVATIONS[function].cost(width, rows, gated=True)
        return parts + slstm_flops(B, H, E, shape.length) + total(inner) + Tally(own_state=recurrent(state, shape, H))

    def watchable(self, width: int) -> Watchables:
        H, E = self.heads, width // self.heads
        return {
            "gates": value("BTHn", "what tokens give to the four gates of each head, side by side", H=H, n=4 * E),
            **state_seen("BnHE", n=4, H=H, E=E),
            "mixed": value("BTHE", "the hidden state of each head", H=H, E=E),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """4 * B * D numbers and the convolution's latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        convolution = self.convolution
        recent = {} if convolution is None else {"gates": convolution.state(width, batch, dtype, device)}
        return RecurrentState.empty(batch, 4, self.heads, width // self.heads, device=device, convolutions=recent)
