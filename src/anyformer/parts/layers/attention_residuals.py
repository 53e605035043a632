"""Attention residuals: each step reads a softmax-weighted sum of what earlier steps, or blocks of them, left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Positive
from anyformer.operations import Contraction, Operation, Tally, matrix, total
from anyformer.operations.elementwise import softmax
from anyformer.parts.layers.streams import StepStreams
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from torch import nn

    from anyformer.parts.layers.attention_residuals_module import AttentionResidualsEnds


class AttentionResiduals(StepStreams):
    """N values in place of one residual stream: the input, and per block of `block` steps the sum of their outputs.

    AttnRes (Kimi Team 2026, arXiv 2603.15031). Step s, the first of which is 0, reads

        h = sum_i a_i v_i     a = softmax over i of scale * w . norm(v_i)     v_i: (B, T, D), w: (D,), a: (B, T, n)

    of the n values that stand: v_0, the whole blocks before its own, and its own block so far. w is a weight of the step that
    begins at zero, so that h begins as a mean; the first step reads v_0. Behind the last layer a further w joins all N values.
    `block = 1` is the paper's full form, more than 1 its form by blocks; its layer is our step, its pseudo-query w. Each step
    rewrites all N values here, where the paper shares whole blocks among steps: training keeps more.
    """

    stability: ClassVar[str | None] = "attention residuals"
    placed: ClassVar[bool] = True
    deep: ClassVar[bool] = True
    kind: Literal["attention_residuals"] = "attention_residuals"
    block: Count = 1
    """Steps of a block."""
    norm: Norm = RMSNorm()
    """Of the values that w reads (the keys), one per step."""
    values: Literal["plain", "normed"] = "plain"
    """What is summed: v, or norm(v) (Inkling 2)."""
    scale: Positive = 1.0
    """Factor of the scores (Inkling 2: D^-1/2)."""

    @property
    def lanes(self) -> int:
        return min(self.count, 4)

    def sketch(self, width: int) -> Sketch:
        of = "steps" if self.block == 1 else f"blocks of {self.block} steps"
        return Sketch("Attention residuals", (f"softmax over {self.count - 1} {of} and the input",))

    def problem_of_layers(self, steps: Sequence[int], *, own: bool) -> str | None:
        if len(set(steps)) > 1:
            return f"attention_residuals count steps: give all layers as many, not {sorted(set(steps))}"
        if not own:
            return "attention_residuals read by a weight per place: leave shared_weights out"
        needed = 1 + -(-sum(steps) // self.block)
        if self.count != needed:
            made = f"the input and {sum(steps)} steps in blocks of {self.block} are {needed} values"
            return f"{made}: set streams.count = {needed}, not {self.count}"
        return None

    def fitting(self, layers: Sequence[str], shared: Collection[str], steps: int) -> tuple[AttentionResiduals, Sequence[str]]:
        return self.but(count=1 + -(-len(layers) * steps // self.block)), layers

    def standing(self, index: int) -> int:
        """n, the values that step `index` reads."""
        return 1 + -(-index // self.block)

    def build_ends(self, width: int) -> AttentionResidualsEnds:
        from anyformer.parts.layers.attention_residuals_module import AttentionResidualsEnds

        return AttentionResidualsEnds(self, width)

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        return Tally(), self._cost(width, rows, self.count)

    def build(self, width: int, index: int, inputs: Inputs = None) -> nn.Module:
        from anyformer.parts.layers.attention_residuals_module import DepthStep, FirstStep

        return DepthStep(self, width, index, inputs) if index else FirstStep()

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        return self._cost(width, rows, self.standing(index), 3 if inputs == "read" else 1) if index else Tally()

    def _cost(self, width: int, rows: int, values: int, queries: int = 1) -> Tally:
        query = matrix("query", width, queries, rows * values, role="replicate", fill="zeros", sensitive=True)
        work: dict[str, Operation] = {
            "weights": softmax(rows * values * queries, rows * values * queries),
            "mix": Contraction(2 * rows * values * width * queries),
        }
        return query + total({"norm": self.norm.cost(width, rows * values)}) + Tally(own_work=work)
