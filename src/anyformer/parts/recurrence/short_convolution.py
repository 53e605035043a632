"""Short causal convolutions over time, each feature by itself."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Choice, Value
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.pointwise.activation import ACTIVATIONS, FIXED, activation_name
from anyformer.parts.recurrence.recurrence import exact
from anyformer.tally import Tally, Weight
from anyformer.tape import Held, Tape


class ShortConvolution(Value):
    """y_t = act(sum over j < n of w_j x_{t - n + 1 + j} + b) for each of W features: (B, T, W) -> (B, T, W).

    w: (W, n), the last column meets the present (the layout of a depthwise Conv1d). Before the first token of a row or a
    document there are zeros. Before linear attention: Mamba (arXiv 2312.00752), gated delta nets (2412.06464).
    """

    kernel: Annotated[int, Field(ge=2)] = 4
    """n, positions that an output sees."""
    activation: Annotated[str, Choice(lambda: FIXED)] | None = None
    bias: bool = False

    @property
    def said(self) -> str:
        """In words: `convolution 4, SiLU`."""
        acted = "" if self.activation is None else f", {activation_name(self.activation, gated=False)}"
        return f"convolution over {self.kernel}{acted}"

    def build(self, width: int) -> ShortConvolutionModule:
        return ShortConvolutionModule(self, width)

    def cost(self, width: int) -> Tally:
        """Weights only: a sum of n shifted products is no matrix product."""
        weights = {"weight": Weight((width, self.kernel), "column", "matrix")}
        if self.bias:
            weights["bias"] = Weight((width,), "column", "zeros")
        return Tally(weights)

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        """The input with its past in fp32, once for all n products, and what the activation keeps."""
        rows = tape.shape.batch * (tape.shape.length + self.kernel - 1)
        tape.keep("convolved", tape.new(rows * width, "fp32"))
        y = tape.new(x.elements, "fp32")
        y = ACTIVATIONS[self.activation].keeps(tape, y) if self.activation else y
        return tape.cast(y, x.number)

    def state(self, width: int, batch: int, dtype: torch.dtype, device: torch.device) -> ConvolutionState:
        return ConvolutionState(torch.zeros(batch, self.kernel - 1, width, dtype=dtype, device=device))

    def state_elements(self, width: int, batch: int) -> int:
        """Numbers in `state`."""
        return batch * (self.kernel - 1) * width


class ShortConvolutionModule(nn.Module):
    """(B, T, W) -> (B, T, W)."""

    def __init__(self, convolution: ShortConvolution, width: int) -> None:
        super().__init__()
        self.activation = FIXED[convolution.activation] if convolution.activation else nn.Identity()
        self.weight = nn.Parameter(torch.empty(width, convolution.kernel))
        self.bias = nn.Parameter(torch.empty(width)) if convolution.bias else None

    def extra_repr(self) -> str:
        return f"width={self.weight.shape[0]}, kernel={self.weight.shape[1]}"

    def forward(self, x_BTW: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        before = self.weight.shape[1] - 1
        past = x_BTW.new_zeros(len(x_BTW), before, x_BTW.shape[2]) if state is None else state.recent.to(x_BTW.dtype)
        wide, segments, valid = torch.cat([past, x_BTW], 1), context.segments, context.valid
        if segments is not None:
            segments = F.pad(segments, (before, 0), value=-1)
        if valid is None:
            y = convolve(wide, self.weight, segments)
        else:
            order, back = context.once(("closed_up", before), lambda: closed_up(valid.expand(len(x_BTW), -1), before))
            wide = wide.gather(1, order[..., None].expand_as(wide))
            segments = None if segments is None else segments.gather(1, order)
            y = convolve(wide, self.weight, segments)
            y = y.gather(1, back[..., None].expand_as(y))
        if state is not None:
            state.recent.copy_(wide[:, wide.shape[1] - before :])
        y = y if self.bias is None else y + self.bias
        return self.activation(y).to(x_BTW.dtype)


def convolve(wide: Tensor, weight: Tensor, segments: Tensor | None) -> Tensor:
    """(B, n - 1 + T, W) and (W, n) -> (B, T, W) in fp32 at least; `segments` (B, n - 1 + T): see only your own number."""
    wide, weight, before = exact(wide), exact(weight), weight.shape[1] - 1
    length = wide.shape[1] - before
    y = wide[:, before:] * weight[:, before]
    for j in range(before):
        seen = wide[:, j : j + length]
        if segments is not None:
            seen = seen.masked_fill((segments[:, j : j + length] != segments[:, before:])[..., None], 0)
        y = y + seen * weight[:, j]
    return y


def closed_up(valid_BT: Tensor, before: int) -> tuple[Tensor, Tensor]:
    """An order of the `before` remembered positions and T new ones that puts padding in front, so that no gap is left.

    (B, before + T) places to take, and for each of the T where its output stands afterwards (B, T).
    """
    order = F.pad(valid_BT.long(), (before, 0), value=1).argsort(dim=1, stable=True)
    return order, (order.argsort(1)[:, before:] - before).clamp(min=0)
