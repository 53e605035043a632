"""fp16 products with a loss that is scaled."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Count, Positive
from anyformer.precision.precision import Number, Precision


class Fp16(Precision):
    """Weights, gradients and the optimiser in fp32; products and the residual stream in fp16 (autocast), the loss scaled.

    fp16 holds magnitudes from 6e-8 to 65,504, and gradients are often smaller. So the loss is multiplied by S before the
    backward pass and the gradients are divided by S after it: L_scaled = S L. An update whose gradient overflows is skipped,
    the schedule waits, and S shrinks; after `interval` good updates in a row S grows (Micikevicius et al. 2018, arXiv
    1710.03740, section 3.2).
    """

    kind: Literal["fp16"] = "fp16"
    number: ClassVar[Number] = "fp16"
    unit: ClassVar[str] = "fp16"
    scale: Positive = 65536.0
    """S before the first update."""
    growth: Annotated[float, Field(gt=1)] = 2.0
    """Factor of S after `interval` updates without an overflow."""
    backoff: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor of S after an overflow."""
    interval: Count = 2000
    """Updates in a row without an overflow after which S grows."""
    smallest: Positive = 2.0**-14
    """A run stops with an error when an overflow would bring S below this: then it is not the scale that overflows."""
