"""AdamW with a mean of the weights in the place of a falling rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.operations import Weight
from anyformer.tuning.optimisers.adamw import AdamSettings
from anyformer.tuning.optimisers.optimiser import Beta

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule


class ScheduleFree(AdamSettings):
    """AdamW that averages its weights instead of lowering its rate (Defazio et al. 2024, arXiv 2405.15682).

    z moves as AdamW's weights do, by the gradient at y; x is the mean of all z, weighted by the rate's square; training uses
    y = (1 - beta1) z + beta1 x. Evaluation, samples and checkpoints use x. The rate must not fall: `schedule` is constant,
    after its rise.
    """

    kind: Literal["schedule_free"] = "schedule_free"
    averages: ClassVar[bool] = True
    betas: tuple[Annotated[float, Field(gt=0, lt=1)], Beta] = (0.9, 0.999)
    """Share of the mean x in the weights y of training, and the decay of the mean square of the gradient."""

    def state_bytes(self, weight: Weight) -> int:
        """z and the mean square in fp32: 8 n; x follows from y and z."""
        return 8 * weight.count

    def rule(self, weight: Weight) -> Rule:
        from anyformer.tuning.optimisers.schedule_free_module import ScheduleFreeRule

        return ScheduleFreeRule(self.betas, self.eps)
