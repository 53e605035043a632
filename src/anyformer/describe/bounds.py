"""Numbers with bounds, as fields of descriptions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]
"""A probability of dropping something, which is never 1."""
Moderate = Annotated[float, Field(ge=1e-12, le=1e12)]
"""A factor or a base of which powers, products and quotients are numbers in fp32."""
