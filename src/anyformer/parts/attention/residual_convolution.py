"""Short causal filters that add to what they read, at constant variance; and those of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Value
from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.slot import HeadSizes, Side, Way

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.attention.residual_convolution_module import ResidualConvolutionModule
    from anyformer.parts.call.recurrent_state import ConvolutionState
    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState

Kernel = Annotated[int, Field(ge=2, le=1024)]
SIDES: tuple[Side, ...] = ("key", "value")


class ResidualConvolution(Value):
    """y_t = (x_t + sum over j < n of w_j x_{t - n + 1 + j}) / sqrt(n + 1), each of W features by itself: (B, T, W).

    w: (W, n), the last column of the present. Of independent inputs with filters of variance 1 the output has variance 1.
    Inkling's of keys, values and of what branches give (Thinking Machines 2026; transformers 5.23), which does not divide.
    """

    kernel: Kernel = 4
    """n."""
    normalised: bool = True
    """Whether it is divided by sqrt(n + 1) (Inkling 2), or not (Inkling)."""

    @property
    def words(self) -> str:
        """In words."""
        return f"x + convolution over {self.kernel}"

    @property
    def factor(self) -> float:
        """1 / sqrt(n + 1), or 1."""
        return float((self.kernel + 1) ** -0.5) if self.normalised else 1.0

    def build(self, width: int) -> ResidualConvolutionModule:
        from anyformer.parts.attention.residual_convolution_module import ResidualConvolutionModule

        return ResidualConvolutionModule(self, width)

    def cost(self, width: int) -> Tally:
        """Weights only: a sum of n shifted products is no matrix product."""
        return Tally({"weight": Weight((width, self.kernel), "replicate", "matrix", linear=False)})

    def state(self, width: int, batch: int, dtype: torch.dtype, device: torch.device) -> ConvolutionState:
        """The latest n - 1 inputs, (B, n - 1, W)."""
        return empty_state(self.kernel, width, batch, dtype, device)

    def state_elements(self, width: int, batch: int) -> int:
        """Numbers in `state`."""
        return batch * (self.kernel - 1) * width


def empty_state(kernel: int, width: int, batch: int, dtype: torch.dtype, device: torch.device) -> ConvolutionState:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState

    return ConvolutionState(torch.zeros(batch, kernel - 1, width, dtype=dtype, device=device))


class SideConvolution(Adjustment):
    """Keys and values -> (y_t + sum over j < n of w_j y_{t - j}) / sqrt(n + 1), right behind their projections.

    `taps = "token"`: w_j of head g is static_j + (x_t W)_{g, j}, x_t what the side is projected from and W (D, K * n): a token
    says for each head how far back it looks; divided by sqrt(2 n + 1) (Inkling 2, Thinking Machines 2026; transformers 5.23).
    """

    name: ClassVar[str] = "side_convolution"
    order: ClassVar[int] = -1
    rules_out: ClassVar[frozenset[Way]] = frozenset(
        {"divided heads", "divided positions", "chosen keys", "source", "two inputs", "outside", "layout", "latent"}
    )
    needs_own_keys: ClassVar[bool] = True
    kernel: Kernel = 4
    """n."""
    taps: Literal["static", "token"] = "static"
    normalised: bool = True
    """Whether sums are divided so that independent values of variance 1 keep it."""

    @property
    def words(self) -> tuple[str, ...]:
        of = "" if self.taps == "static" else " by each token"
        return (f"keys and values convolved over {self.kernel}{of}",)

    @property
    def factor(self) -> float:
        """What sums are multiplied by."""
        terms = self.kernel * (2 if self.taps == "token" else 1) + 1
        return float(terms**-0.5) if self.normalised else 1.0

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.residual_convolution_module import SideConvolutionModule, TokenConvolutionModule

        made = TokenConvolutionModule if self.taps == "token" else SideConvolutionModule
        return {f"{side}_convolution": made(self, sizes.features(side), sizes.groups, sizes.inputs) for side in SIDES}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return total({f"{side}_convolution": self._cost(sizes, side, key_rows) for side in SIDES})

    def _cost(self, sizes: HeadSizes, side: Side, rows: int) -> Tally:
        features, K, n = sizes.features(side), sizes.groups, self.kernel
        if self.taps == "static":
            return Tally({"weight": Weight((features, n), "replicate", "matrix", linear=False)})
        taps = matrix("taps", sizes.inputs, K * n, rows, role="replicate")
        return taps + Tally({"static": Weight((n, features), "replicate", "zeros", linear=False)})

    def state_elements(self, sizes: HeadSizes, batch: int) -> int:
        return sum(batch * (self.kernel - 1) * sizes.features(side) for side in SIDES)

    def state(self, state: FullState | RingState, sizes: HeadSizes) -> FullState | RingState:
        from anyformer.parts.call.convolved_state import with_convolutions

        batch, dtype, device = len(state.key), state.key.dtype, state.key.device
        return with_convolutions(
            state, {side: empty_state(self.kernel, sizes.features(side), batch, dtype, device) for side in SIDES}
        )

    def projected(self, y: Tensor, x: Tensor, side: Side, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.residual_convolution_module import state_of

        if side == "query":
            return y
        return call.built(f"{side}_convolution")(y, x, call.context, state_of(call.state, side))  # type: ignore[no-any-return]
