"""A gate through which a message from an earlier pass enters a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.describe import Count, Positive, Value
from anyformer.operations import Tally, matrix, total
from anyformer.operations.elementwise import activated, normalised

if TYPE_CHECKING:
    from anyformer.parts.pointwise.message_gate_module import MessageGateModule


class MessageGate(Value):
    """y = (1 - tanh(z W_f)) x + tanh(z W_m) m, z = [n(x), n(m)] W: (B, T, P), n: by the root of the mean square, no gain.

    x: the stream, m: a message, (B, T, D) each; W: (2 D, P), W_f and W_m: (P, D). Inkling 2 with loops (Thinking Machines
    2026; transformers 5.24), whose forget gate is the first tanh.
    """

    rank: Count = 64
    """Features (P) of z."""
    eps: Positive = 1e-6

    def build(self, width: int) -> MessageGateModule:
        from anyformer.parts.pointwise.message_gate_module import MessageGateModule

        return MessageGateModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        made = matrix("down", 2 * width, self.rank, rows, role="replicate")
        for name in ("forget", "message"):
            made += matrix(name, self.rank, width, rows, role="replicate")
        norms = {f"{name}_norm": Tally(own_work={"": normalised(width, rows, 3 * width + 2)}) for name in ("stream", "message")}
        return made + total(norms) + Tally(own_work={"gates": activated(2 * width * rows, gated=True)})
