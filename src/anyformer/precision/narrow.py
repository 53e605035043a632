"""Products whose operands are rounded to 8 or 4 bits and multiplied by scales that keep them in range."""

from __future__ import annotations

from typing import ClassVar, Literal

from anyformer.describe import Count
from anyformer.precision.precision import Narrow, Scaling


class Fp8(Narrow):
    """8-bit products (Micikevicius et al. 2022, arXiv 2209.05433): E4M3 for inputs and weights, E5M2 for gradients.

    `scaling`: `tensor` takes S = largest number of the format / max |x| of the tensor as it is now; `channel` one S per
    row of X and of W, and in the backward pass per row or column that is not summed over; `running` takes the maximum of
    the last `history` updates, so that a kernel may round x and find its maximum in one reading (delayed scaling of NVIDIA's
    Transformer Engine; the first update, which has none, takes its own).
    """

    kind: Literal["fp8"] = "fp8"
    unit: ClassVar[str] = "fp8"
    scaling: Literal["tensor", "channel", "running"] = "tensor"
    """What shares a scale."""
    backward: Literal["e5m2", "e4m3"] = "e5m2"
    """The format of gradients: E5M2 has the range, E4M3 one bit more of mantissa."""
    history: Count = 16
    """Updates whose maxima `running` takes the greatest of; Transformer Engine has 1,024."""

    @property
    def shares(self) -> Scaling:
        return self.scaling


class Mxfp8(Narrow):
    """E4M3 with a scale of a power of two per 32 numbers along the sum (OCP Microscaling 1.0; arXiv 2310.10537).

    OCP's rule scales the largest number of a block to between 256 and 512, and what is above 448 saturates; `up` takes the
    power of two at which nothing does (Mishra et al. 2025, arXiv 2506.08027, who find OCP's rule to train worse).
    Emulated: operands are rounded to the format and multiplied in fp32, so it shows the loss curve and gives no speed.
    """

    kind: Literal["mxfp8"] = "mxfp8"
    unit: ClassVar[str] = "fp8"
    multiple: ClassVar[int] = 32
    bits: ClassVar[float] = 8 + 8 / 32
    emulated: ClassVar[bool] = True
    scale: Literal["up", "ocp"] = "up"
    """How the power of two of a block is rounded: so that nothing saturates, or by OCP's rule."""

    @property
    def shares(self) -> Scaling:
        return "block"


class Nvfp4(Narrow):
    """E2M1 with an E4M3 scale per 16 numbers along the sum and one in fp32 for the tensor (arXiv 2509.25149).

    Emulated: operands are rounded to the format and multiplied in fp32, so it shows the loss curve and gives no speed. All
    are rounded to nearest; NVIDIA's recipe also rounds gradients by chance, shares a weight's scale in blocks of 16 x 16,
    and rotates the operands of a weight's gradient.
    """

    kind: Literal["nvfp4"] = "nvfp4"
    unit: ClassVar[str] = "fp4"
    bits: ClassVar[float] = 4 + 8 / 16
    emulated: ClassVar[bool] = True

    @property
    def shares(self) -> Scaling:
        return "block"
