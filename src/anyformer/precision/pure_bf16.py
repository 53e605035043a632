"""bf16 weights and gradients."""

from __future__ import annotations

from typing import ClassVar, Literal

from anyformer.precision.precision import Number, Precision


class PureBf16(Precision):
    """Weights that learn and their gradients in bfloat16, products and the residual stream too.

    bf16 keeps 8 bits of a weight, so an update below 1 / 256 of it would be lost by rounding to nearest. `masters`: the
    optimiser keeps every weight in fp32 as well, updates that copy, and rounds it (Micikevicius et al. 2018, arXiv
    1710.03740, section 3.1, for fp16). `stochastic`: no copy; the updated weight is rounded up or down by chance, with a
    mean equal to the update (Gupta et al. 2015, arXiv 1502.02551), drawn from (seed, update, element).
    """

    kind: Literal["pure_bf16"] = "pure_bf16"
    number: ClassVar[Number] = "bf16"
    unit: ClassVar[str] = "bf16"
    weight_bytes: ClassVar[int] = 2
    rounding: Literal["masters", "stochastic"] = "masters"
    """How an update smaller than the step between two bf16 numbers is kept: in a copy in fp32, or by chance."""

    @property
    def update_bytes(self) -> int:
        return 4 if self.masters else 8

    @property
    def masters(self) -> bool:
        return self.rounding == "masters"
