"""A vector that is the same at every position."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Shape, Tally, Weight
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.layers.constant_module import ConstantModule


class Constant(Sublayer):
    """y = c, (D,) at every position, whatever the stream is: the state from which a second stream begins.

    Learned, or a stored vector that no gradient moves: z_L of a Hierarchical Reasoning Model (Wang et al. 2025, arXiv
    2506.21734) in its form for text, `z_L_init`. It begins at 0.
    """

    reads_stream: ClassVar[bool] = False
    kind: Literal["constant"] = "constant"
    learned: bool = True
    """Whether gradients move it; else it stays what is stored."""

    def sketch(self, width: int) -> Sketch:
        return Sketch("Constant", ("learned" if self.learned else "stored",))

    def gathers(self, width: int) -> int | None:
        return 0

    def build(self, width: int, plan: Plan, name: str) -> ConstantModule:
        from anyformer.parts.layers.constant_module import ConstantModule

        return ConstantModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return Tally({"vector": Weight((width,), "replicate", "zeros", writes=True, learnt=self.learned)})
