"""Adafactor without momentum."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import NotNegative, Positive
from anyformer.operations import Weight
from anyformer.tuning.optimisers.optimiser import Decay, Optimiser, Rate

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule


class Adafactor(Optimiser):
    """The second moment of a matrix as the product of a row and a column, no first moment (arXiv 1804.04235).

    The rate is relative: a step is `learning_rate` times the root mean square of the weight. An expert counts as a weight of
    its own. The paper's rate min(1e-2, 1 / sqrt(t)) is the schedule `inverse_square_root` with `warmup` = 0, `flat` = 10,000.
    """

    kind: Literal["adafactor"] = "adafactor"
    learning_rate: Rate = 1e-2
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Exponent of the second moment's average: 1 - t^-decay."""
    clip: Positive = 1.0
    """Largest root mean square of a step, before its rate; the paper's d."""
    least_size: NotNegative = 1e-3
    """A weight's root mean square counts as this at least, so that zeros can move; the paper's epsilon 2."""
    eps: Positive = 1e-30
    """Added to the square of the gradient, against division by 0; the paper's epsilon 1."""
    weight_decay: Decay = 0.0

    def rate_of(self, weight: Weight) -> float:
        """A step is as large as the weight, which is smaller itself where both sides are wider: 1 / sqrt(m), else 1."""
        wider = weight.wider
        return float(wider.inputs**-0.5) if weight.fill != "head" and wider.outputs != 1 else 1.0

    def state_bytes(self, weight: Weight) -> int:
        """4 (O + I) for each matrix (O, I), 4 n for a vector."""
        if not weight.decays:
            return 4 * weight.count
        *stacked, outputs, inputs = (1, *weight.shape)
        return 4 * weight.copies * prod(stacked) * (outputs + inputs)

    def rule(self, weight: Weight) -> Rule:
        from anyformer.tuning.optimisers.adafactor_module import AdafactorRule

        return AdafactorRule(self.decay, self.clip, self.least_size, self.eps, weight.decays, weight.role == "expert")
