"""AdamW with moments in 8 bits."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.operations import Weight
from anyformer.tuning.optimisers.adamw import AdamSettings

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule


class AdamW8bit(AdamSettings):
    """AdamW with moments in 8 bits and a scale for each block of numbers (Dettmers et al. 2021, arXiv 2110.02861).

    A number m of a block is stored as the code of the map nearest to m / max |m|; the paper's dynamic map has codes evenly
    spread over each power of ten from 1e-6 to 1, so that small numbers keep their relative precision.
    """

    kind: Literal["adamw_8bit"] = "adamw_8bit"
    block: Annotated[int, Field(ge=1)] = 256
    """Numbers that share an fp32 scale; the paper has 2,048, bitsandbytes 256."""
    smallest: Annotated[int, Field(ge=0)] = 4096
    """Weights with fewer numbers have moments in fp32, as in bitsandbytes."""

    def state_bytes(self, weight: Weight) -> int:
        """Two moments: 2 (n + 4 ceil(n / block)), or 8 n where n < `smallest`."""
        n = prod(weight.shape)
        return weight.copies * (8 * n if n < self.smallest else 2 * (n + 4 * -(-n // self.block)))

    def rule(self, weight: Weight) -> Rule:
        from anyformer.tuning.optimisers.adamw_8bit_module import EightBitRule
        from anyformer.tuning.optimisers.adamw_module import AdamRule

        if prod(weight.shape) < self.smallest:
            return AdamRule(self.betas, self.eps)
        return EightBitRule(self.betas, self.eps, self.block)
