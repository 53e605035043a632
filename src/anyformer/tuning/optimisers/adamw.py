"""AdamW, and the settings that its kin share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Positive
from anyformer.operations import Weight
from anyformer.tuning.optimisers.optimiser import Beta, Decay, Optimiser, Rate

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule


class AdamSettings(Optimiser):
    """The settings of AdamW, for moments of any number of bits."""

    learning_rate: Rate = 1e-3
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Decay of the running means of the gradient and of its square."""
    eps: Positive = 1e-8
    """Added to the root of the mean square, against division by 0."""
    weight_decay: Decay = 0.1


class AdamW(AdamSettings):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101) of matrices, not of gains and biases."""

    kind: Literal["adamw"] = "adamw"

    def state_bytes(self, weight: Weight) -> int:
        """Two moments in fp32: 8 n."""
        return 8 * weight.count

    def rule(self, weight: Weight) -> Rule:
        from anyformer.tuning.optimisers.adamw_module import AdamRule

        return AdamRule(self.betas, self.eps)
