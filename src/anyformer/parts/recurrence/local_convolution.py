"""A short convolution as a branch of its own, anywhere in a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Shape, Tally
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState
    from anyformer.parts.recurrence.local_convolution_module import LocalConvolutionModule


class LocalConvolution(Sublayer):
    """y = conv(x): each of D features by itself, over the latest n positions, without a projection: n * D weights.

    A step of it before attention or the network lets neighbours mix: Canon layers (Allen-Zhu 2025, arXiv 2512.17351), here on
    the stream and not between a norm and its sublayer. A kernel of 2 is RWKV's token shift (Peng et al. 2023, arXiv
    2305.13048) with weights that do not depend on the sublayer that reads it.
    """

    kind: Literal["local_convolution"] = "local_convolution"
    convolution: ShortConvolution = ShortConvolution()

    def sketch(self, width: int) -> Sketch:
        return Sketch("Short convolution", flow=Cell(self.convolution.words, "mix"))

    @property
    def traits(self) -> Traits:
        return Traits("convolution")

    def build(self, width: int, plan: Plan, name: str) -> LocalConvolutionModule:
        from anyformer.parts.recurrence.local_convolution_module import LocalConvolutionModule

        return LocalConvolutionModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        state = self.convolution.state_elements(width, shape.batch) * plan.activation_bytes
        return self.convolution.cost(width, shape.rows).within("convolution") + Tally(own_state=recurrent(state, shape))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> ConvolutionState:
        """B * (n - 1) * D elements, for any capacity."""
        return self.convolution.state(width, batch, dtype, device)
