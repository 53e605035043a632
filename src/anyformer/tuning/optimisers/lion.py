"""Lion: steps along a sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Weight
from anyformer.tuning.optimisers.optimiser import Beta, Decay, Optimiser, Rate

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule


class Lion(Optimiser):
    """Steps along the sign of an average of gradients (Chen et al. 2023, arXiv 2302.06675): one moment."""

    kind: Literal["lion"] = "lion"
    learning_rate: Rate = 1e-4
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    """Weight of the mean in the step taken, and the decay of that mean."""
    weight_decay: Decay = 1.0

    def state_bytes(self, weight: Weight) -> int:
        """One moment in fp32: 4 n."""
        return 4 * weight.count

    def rule(self, weight: Weight) -> Rule:
        from anyformer.tuning.optimisers.lion_module import LionRule

        return LionRule(self.betas)
