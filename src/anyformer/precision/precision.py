"""`Precision`: the number formats that a model is trained in, and what they cost."""

from __future__ import annotations

from typing import ClassVar, Literal

from anyformer.describe import Count, Registry, Value

Number = Literal["fp32", "bf16", "fp16"]
Kind = Literal["auto", "fp32", "tf32", "bf16", "pure_bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
"""The kinds of precision of this package, as a command line offers them."""
Scaling = Literal["tensor", "channel", "running", "block"]
"""What shares a scale: a tensor; a row or column of it; a tensor by its greatest magnitudes so far; a block of numbers."""
BYTES: dict[str, int] = {"fp32": 4, "bf16": 2, "fp16": 2}


class Precision(Value):
    """The number formats of weights, gradients and products in training.

    A bare word stands for the table of its kind: `precision = "fp16"` is `precision = { kind = "fp16" }`.
    """

    kinds: ClassVar[Registry] = Registry()
    bare: ClassVar[bool] = True
    kind: str

    number: ClassVar[Number] = "fp32"
    """The format of activations, and of every product that has no narrower one."""
    unit: ClassVar[str] = "fp32"
    """The format whose peak rate products reach, as `hardware.toml` names it."""
    weight_bytes: ClassVar[int] = 4
    """Bytes per weight that learns, and of its gradient."""

    @property
    def update_bytes(self) -> int:
        """Bytes per number of a weight while it is updated: of its gradient, or of itself too, in fp32."""
        return 0

    @property
    def masters(self) -> bool:
        """Whether the optimiser keeps a copy of each weight in fp32."""
        return False

    @property
    def autocasts(self) -> bool:
        """Whether products and the residual stream run in `number` while weights keep their own format."""
        return self.number != "fp32"

    @property
    def narrow(self) -> Narrow | None:
        """The format of the operands of large products, where it needs scales; None where it does not."""
        return None


class Narrow(Precision):
    """The three products of a large linear map, O = X W^T, dX = dO W and dW = dO^T X, on operands in few bits.

    An operand is stored as X_scaled = round(X S_X), with S_X in fp32, and a product is undone: O = O_scaled / (S_X S_W).
    Weights, gradients of weights and the optimiser are in fp32; everything else is as with `bf16`: activations, attention,
    and the products that are not chosen. Chosen are matrices of layers, both of whose sizes are at least `least` and
    multiples of `multiple`; tables, the head, routers, experts, norms and biases are not.
    """

    number: ClassVar[Number] = "bf16"
    multiple: ClassVar[int] = 16
    """Sizes of a product are multiples of this."""
    bits: ClassVar[float] = 8.0
    """Bits of a number of an operand, with its share of a scale."""
    emulated: ClassVar[bool] = False
    """Whether operands are only rounded to the format, and multiplied in wider numbers on every device."""
    least: Count = 256
    """The smallest input or output size of a linear map whose products are chosen."""
    experts: bool = False
    """Whether the products of experts are narrow too, as DeepSeek-V3's are: what that costs can be asked, training refuses."""

    @property
    def narrow(self) -> Narrow:
        return self

    @property
    def shares(self) -> Scaling:
        """What shares a scale."""
        raise NotImplementedError

    def chooses(self, outputs: int, inputs: int) -> bool:
        """Whether a matrix (O, I) of a layer is large enough."""
        return min(outputs, inputs) >= self.least and outputs % self.multiple == 0 and inputs % self.multiple == 0
