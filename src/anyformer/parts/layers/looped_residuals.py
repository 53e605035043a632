"""Attention residuals of layers that are computed several times: each pass reads messages of the one before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Count
from anyformer.operations import Tally, total
from anyformer.parts.layers.attention_residuals import AttentionResiduals
from anyformer.parts.pointwise.message_gate import MessageGate
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from torch import nn

    from anyformer.parts.layers.looped_residuals_module import LoopedResidualsEnds


class LoopedResiduals(AttentionResiduals):
    """`AttentionResiduals` whose layers behind `before` blocks of steps, `looped` blocks of them, are computed `passes` times.

    Each pass begins from what stands before the loop, and writes the same `looped` values; what the pass before wrote is kept
    beside, m values u_i, and step s of a later pass reads besides them a message,

        h' = gate(h, sum_i b_i u_i)     b = softmax over i of scale * w' . norm(u_i)     u_i: (B, T, D), w': (D,)

    Layers behind the loop read the values before it and those of the last pass. Inkling 2 Mini (Thinking Machines 2026;
    transformers 5.24, `inkling2_loop`), whose layers are two steps. The layers of the loop share their weights.
    """

    kind: Literal["looped_residuals"] = "looped_residuals"  # type: ignore[assignment]
    before: Count = 1
    """Whole blocks of steps before the loop."""
    looped: Count = 1
    """Whole blocks of steps in it, m."""
    passes: Annotated[int, Field(ge=2)] = 2
    gate: MessageGate = MessageGate()

    def sketch(self, width: int) -> Sketch:
        loop = f"{self.looped} blocks {self.passes} times, with messages of the pass before"
        return Sketch("Attention residuals in a loop", (f"softmax over blocks of {self.block} steps and the input", loop))

    def problem_of_layers(self, steps: Sequence[int], *, own: bool) -> str | None:
        if len(set(steps)) > 1:
            return f"looped_residuals count steps: give all layers as many, not {sorted(set(steps))}"
        if own:
            return "looped_residuals belong to layers that are computed several times: name these in shared_weights"
        if self.block % steps[0]:
            return f"a block of looped_residuals has whole layers of {steps[0]} steps, not block = {self.block} steps"
        behind = -(-sum(steps) // self.block) - self.before - self.looped * self.passes
        if behind < 0:
            return f"{sum(steps)} steps are too few for {self.passes} passes of {self.looped} blocks of {self.block} steps"
        needed = 1 + self.before + 2 * self.looped + behind
        if self.count != needed:
            made = f"the input, {self.before} blocks before the loop, twice {self.looped} in it and {behind} behind"
            return f"{made} are {needed} values: set streams.count = {needed}, not {self.count}"
        return None

    def fitting(self, layers: Sequence[str], shared: Collection[str], steps: int) -> tuple[LoopedResiduals, Sequence[str]]:
        inner = [name for name in layers if name in shared]
        first = layers.index(inner[0])
        before, behind = layers[:first], [name for name in layers[first:] if name not in shared]
        count = 1 + len(before) + 2 * len(inner) + len(behind)
        fitted = self.but(block=steps, before=len(before), looped=len(inner), passes=2, count=count)
        return fitted, (*before, *inner * 2, *behind)

    def own(self, index: int) -> tuple[int, int]:
        """The number of step `index` among those with weights of their own, and its pass."""
        first, loop = self.before * self.block, self.looped * self.block
        if index < first + loop:
            return index, 0
        if index < first + loop * self.passes:
            return first + (index - first) % loop, (index - first) // loop
        return index - (self.passes - 1) * loop, 0

    def slot(self, block: int) -> int:
        """Where the values of a block stand, behind the input; those of the pass before stand behind those of the loop."""
        return 1 + block + (self.looped if block >= self.before + self.looped else 0)

    def loops(self, own: int) -> bool:
        """Whether a step is computed several times."""
        return self.before <= own // self.block < self.before + self.looped

    def read_slots(self, own: int) -> tuple[int, ...]:
        """The values that a step reads."""
        return (0, *(self.slot(block) for block in range(-(-own // self.block))))

    def standing(self, index: int) -> int:
        return len(self.read_slots(self.own(index)[0]))

    def build_ends(self, width: int) -> LoopedResidualsEnds:
        from anyformer.parts.layers.looped_residuals_module import LoopedResidualsEnds

        return LoopedResidualsEnds(self, width)

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        return Tally(), self._cost(width, rows, self.count - self.looped)

    def build(self, width: int, index: int, inputs: Inputs = None) -> nn.Module:
        from anyformer.parts.layers.attention_residuals_module import FirstStep
        from anyformer.parts.layers.looped_residuals_module import LoopedStep

        return LoopedStep(self, width, self.own(index)[0], inputs) if index else FirstStep()

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        own, turn = self.own(index)
        made = super().cost(width, rows, index, inputs)
        if not self.loops(own):
            return made
        sides = 3 if inputs else 1
        message, gate = self._cost(width, rows, self.looped, sides), self.gate.cost(width, rows)
        if not turn:
            message, gate = message.without("work"), gate.without("work")
        gates = {f"gates.{side}": gate for side in range(sides)}
        return made + total({"message": message, **gates})
