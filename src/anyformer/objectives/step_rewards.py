"""Process rewards: whether the steps of a solution are right, at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data import IGNORED, Data, RecordBatch, RecordTable, StepLabels
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.frequencies import frequency_loss
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.sequences import FRAME, around, labelled, outputs
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_one_number, needs_one_sequence
from anyformer.text import Specials

OUTCOMES = 2
"""Right and wrong."""


class StepRewardsObjective(RecordObjective):
    """A process reward model: -sum_i log p(y_i), p(right) = sigmoid(r_i), r_i the one output at the last token of step i.

    A solution's other tokens have no target (Lightman et al. 2023, arXiv 2305.20050, section 2.6; Uesato et al. 2022, arXiv
    2211.14275). `accuracy` is the share of steps that are judged rightly, `whole_solutions` that of solutions whose steps all
    are.
    """

    reads: ClassVar[type[Data]] = StepLabels
    kind: Literal["step_rewards"] = "step_rewards"
    frame: bool = True
    """Put around solutions what the tokenizer puts around a text."""

    def special(self, length: int) -> Specials:
        return FRAME if self.frame else Specials()

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not give one number at every position."""
        needs_one_sequence(self.kind, architecture)
        needs_one_number(self.kind, architecture)
        assert architecture.head is not None, "checked above"
        if architecture.head.pool is not None:
            raise ValueError(
                f"the {self.kind} objective gives every step a number, and head.pool gives one per text: leave it out"
            )

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("tokens") + around(setting.tokenizer, 1, self.frame).count

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`targets` (B, T): 1 at the end of a right step, 0 at that of a wrong one."""
        return labelled(batch, setting, self.frame)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, types=torch.zeros(shape.batch, shape.length, dtype=torch.int64), counts=None)

    def rewards(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B, T) in fp32: r at every position."""
        return outputs(model, examples, noise, auxiliary)[..., 0].float()

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return _losses(self.rewards(model, examples, noise, auxiliary), examples.targets).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        rewards_BT, valid_BT = self.rewards(model, examples, None, auxiliary), examples.targets != IGNORED
        mistaken_BT = valid_BT & ((rewards_BT > 0) != (examples.targets == 1))
        real_B = valid_BT.any(1)
        return {
            "loss": _losses(rewards_BT, examples.targets).sum(),
            "steps": valid_BT.sum(),
            "mistaken": mistaken_BT.sum(),
            "solutions": real_B.sum(),
            "whole": (real_B & ~mistaken_BT.any(1)).sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        return {
            "accuracy": 1 - float(totals["mistaken"] / totals["steps"].clamp(min=1)),
            "whole_solutions": float(totals["whole"] / totals["solutions"].clamp(min=1)),
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return "the share of right steps alone", frequency_loss(training, steps, held_out, windows, OUTCOMES)


def _losses(rewards_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """(B, T): -log p of the targets, 0 where there is none."""
    losses_BT = F.binary_cross_entropy_with_logits(rewards_BT, targets_BT.clamp(min=0).float(), reduction="none")
    return torch.where(targets_BT != IGNORED, losses_BT, 0.0)
