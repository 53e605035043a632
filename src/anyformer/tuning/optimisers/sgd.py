"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Weight
from anyformer.tuning.optimisers.optimiser import Beta, Decay, Optimiser, Rate

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule


class SGD(Optimiser):
    """Stochastic gradient descent: b <- momentum b + gradient, w <- w - rate b; one moment, or none without momentum."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: Rate = 1e-2
    momentum: Beta = 0.9
    """Decay of the running sum of gradients."""
    nesterov: bool = False
    """Step along gradient + momentum b instead of b (Sutskever et al. 2013)."""
    weight_decay: Decay = 0.0

    def rate_of(self, weight: Weight) -> float:
        """A step is as large as its gradient: n / m for n times the outputs and m times the inputs; m for a head."""
        wider = weight.wider
        return wider.inputs if weight.fill == "head" else wider.outputs / wider.inputs

    def share_of(self, weight: Weight) -> float:
        """A gradient has the factor of its branch as well."""
        return weight.share / weight.branch

    def state_bytes(self, weight: Weight) -> int:
        """The momentum in fp32: 4 n, or nothing without one."""
        return 4 * weight.count if self.momentum else 0

    def rule(self, weight: Weight) -> Rule:
        from anyformer.tuning.optimisers.sgd_module import DescentRule, MomentumRule

        return MomentumRule(self.momentum, self.nesterov) if self.momentum else DescentRule()
