"""Short causal convolutions over time, each feature by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from anyformer.describe import Choice, Count, Value
from anyformer.operations import Tally, Weight
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState
    from anyformer.parts.recurrence.short_convolution_module import ShortConvolutionModule


class ShortConvolution(Value):
    """y_t = act(sum over j < n of w_j x_{t - n + 1 + j} + b) for each of W features: (B, T, W) -> (B, T, W).

    w: (W, n), the last column multiplies the present (the layout of a depthwise Conv1d). Inputs before the first token of a
    row or a document are zeros. Used before linear attention: Mamba (arXiv 2312.00752), gated delta nets (2412.06464).
    """

    kernel: Annotated[int, Field(ge=2, le=1024)] = 4
    """n, positions that an output reads, each with an operation of its own."""
    dilation: Count = 1
    """d, positions from one that it reads to the next: x_{t - d (n - 1 - j)} (Engram)."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] | None = None
    bias: bool = False

    @property
    def words(self) -> str:
        """In words: `convolution over 4, SiLU`."""
        activation = "" if self.activation is None else f", {activation_name(self.activation, gated=False)}"
        apart = "" if self.dilation == 1 else f", {self.dilation} apart"
        return f"convolution over {self.kernel}{apart}{activation}"

    @property
    def before(self) -> int:
        """Positions before the present that it reads, or passes over."""
        return self.dilation * (self.kernel - 1)

    def build(self, width: int) -> ShortConvolutionModule:
        from anyformer.parts.recurrence.short_convolution_module import ShortConvolutionModule

        return ShortConvolutionModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        """Weights only: a sum of n shifted products is no matrix product."""
        weights = {"weight": Weight((width, self.kernel), "column", "matrix", linear=False)}
        if self.bias:
            weights["bias"] = Weight((width,), "column", "zeros")
        activation = Tally() if self.activation is None else ACTIVATIONS[self.activation].cost(width, rows)
        return Tally(weights) + activation.within("activation")

    def state(self, width: int, batch: int, dtype: torch.dtype, device: torch.device) -> ConvolutionState:
        import torch

        from anyformer.parts.call.recurrent_state import ConvolutionState

        return ConvolutionState(torch.zeros(batch, self.before, width, dtype=dtype, device=device))

    def state_elements(self, width: int, batch: int) -> int:
        """Numbers in `state`."""
        return batch * self.before * width
