"""Objectives that are wrong, each in one respect: next-token prediction with another loss."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator
from tests.testing.wrong.table import Promises, Table
from torch import Tensor

from anyformer.catalogue import architecture
from anyformer.data import IGNORED
from anyformer.describe import from_toml, to_toml
from anyformer.objectives import CausalObjective, Examples, of_divided_logits
from anyformer.objectives.aspects import LossTraits
from anyformer.resizing.tiny import tiny
from anyformer.testing import runs
from anyformer.testing.objectives import ObjectiveTwin, evaluated_loss_is_a_likelihood, loss_equals_its_twin
from anyformer.training import Run

NOT_COUNTED = torch.Generator()


def description_survives_text(run: Run) -> None:
    """A run written as TOML and read again is equal."""
    assert from_toml(Run, to_toml(run)) == run


CONTRACTS = (
    description_survives_text,
    runs.loss_does_not_depend_on_the_cut,
    runs.loss_of_divided_logits_is_that_of_whole_ones,
    loss_equals_its_twin,
    evaluated_loss_is_a_likelihood,
    runs.loss_falls_on_one_repeated_batch,
    runs.killed_and_resumed_equals_never_interrupted,
)


def next_token_by_hand(objective: CausalObjective, logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the targets."""
    wanted = targets != IGNORED
    return -logits.log_softmax(-1)[wanted].gather(1, targets[wanted][:, None]).sum()


def focal_by_hand(objective: CausalObjective, logits: Tensor, targets: Tensor) -> Tensor:
    """(1 - p)^2 times the cross-entropy of the targets."""
    wanted = targets != IGNORED
    log_p = logits.log_softmax(-1)[wanted].gather(1, targets[wanted][:, None])
    return -((1 - log_p.exp()) ** 2 * log_p).sum()


def owed(made: type[CausalObjective]) -> Promises:
    run = runs.run_on_text(tiny(architecture("llama-2-7b")), made())
    twin = TWINS.get(run.objective.kind, next_token_by_hand)
    return {
        each.__name__: partial(each, run, twin) if each is loss_equals_its_twin else partial(each, run) for each in CONTRACTS
    }


OBJECTIVES = Table(owed)


class OtherLoss(CausalObjective):
    """The base of losses that are no -log p of tokens, and say so."""

    kind: Literal["other_loss"] = "other_loss"

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, of_tokens=False, likelihood=False)


@OBJECTIVES.breaks("evaluated_loss_is_a_likelihood")
class Confident(CausalObjective):
    """A factor that is no `Penalty`, so that an evaluation has it too, and tells perplexities of it."""

    kind: Literal["confident"] = "confident"
    factor: float = 0.1

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        return (1 + self.factor) * super().token_loss(logits, examples)

    def by_hand(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (1 + self.factor) * next_token_by_hand(self, logits, targets)


@OBJECTIVES.breaks("description_survives_text")
class HalvesItsField(CausalObjective):
    """Halves a field whenever it is read."""

    kind: Literal["halves_its_field"] = "halves_its_field"
    unused: Annotated[float, BeforeValidator(lambda given: given / 2)] = 1.0


@OBJECTIVES.breaks("loss_does_not_depend_on_the_cut")
class MeanOfRows(OtherLoss):
    """A mean over the rows that happen to be computed together."""

    kind: Literal["mean_of_rows"] = "mean_of_rows"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        return super().token_loss(logits, examples) / len(examples.targets)

    def by_hand(self, logits: Tensor, targets: Tensor) -> Tensor:
        return next_token_by_hand(self, logits, targets) / len(targets)


@OBJECTIVES.breaks("loss_of_divided_logits_is_that_of_whole_ones")
class FocalOfParts(OtherLoss):
    """Focal loss by torch's own functions, which says that it knows of divided logits: alone it is right."""

    kind: Literal["focal_of_parts"] = "focal_of_parts"

    @of_divided_logits
    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        nll = F.cross_entropy(logits.float().flatten(0, 1), examples.targets.flatten(), ignore_index=IGNORED, reduction="none")
        return ((1 - (-nll).exp()).square() * nll).sum()


@OBJECTIVES.breaks("loss_falls_on_one_repeated_batch")
class WrongSign(OtherLoss):
    """Its gradients lead to a larger loss."""

    kind: Literal["wrong_sign"] = "wrong_sign"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        loss = super().token_loss(logits, examples)
        return 2 * loss.detach() - loss

    def by_hand(self, logits: Tensor, targets: Tensor) -> Tensor:
        loss = next_token_by_hand(self, logits, targets)
        return 2 * loss.detach() - loss


@OBJECTIVES.breaks("killed_and_resumed_equals_never_interrupted")
class OwnDraws(OtherLoss):
    """Draws from a generator of the process, which no checkpoint holds: by so little that no other contract sees it."""

    kind: Literal["own_draws"] = "own_draws"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        return super().token_loss(logits, examples) * (1 + 3e-6 * torch.rand((), generator=NOT_COUNTED))


class Focal(OtherLoss):
    """(1 - p)^2 times the cross-entropy of the next token, by torch's own functions."""

    kind: Literal["focal"] = "focal"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        nll = F.cross_entropy(logits.float().flatten(0, 1), examples.targets.flatten(), ignore_index=IGNORED, reduction="none")
        return (self.factor((-nll).exp()) * nll).sum()

    def factor(self, p: Tensor) -> Tensor:
        return (1 - p) ** 2


@OBJECTIVES.breaks("loss_equals_its_twin")
class FocalOfTheSure(Focal):
    """Counts what the model is sure of, in the place of what it is not."""

    kind: Literal["focal_of_the_sure"] = "focal_of_the_sure"

    def factor(self, p: Tensor) -> Tensor:
        return p**2


@OBJECTIVES.breaks("loss_equals_its_twin")
class FocalOfNoGradient(Focal):
    """Its loss is right, and its gradient lacks what follows from the factor."""

    kind: Literal["focal_of_no_gradient"] = "focal_of_no_gradient"

    def factor(self, p: Tensor) -> Tensor:
        return super().factor(p.detach())


@OBJECTIVES.breaks("loss_equals_its_twin")
class MeanOfEachRow(OtherLoss):
    """A mean over the targets of each row, where the sum is asked for."""

    kind: Literal["mean_of_each_row"] = "mean_of_each_row"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        nll = F.cross_entropy(logits.float().mT, examples.targets, ignore_index=IGNORED, reduction="none")
        return (nll.sum(1) / (examples.targets != IGNORED).sum(1).clamp(min=1)).sum()


@OBJECTIVES.breaks("loss_equals_its_twin")
class CountsPadding(OtherLoss):
    """Predicts token 0 where there is nothing to predict."""

    kind: Literal["counts_padding"] = "counts_padding"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        return F.cross_entropy(logits.float().flatten(0, 1), examples.targets.clamp(min=0).flatten(), reduction="sum")


TWINS: dict[str, ObjectiveTwin] = {
    "focal_of_parts": focal_by_hand,
    "focal": focal_by_hand,
    "focal_of_the_sure": focal_by_hand,
    "focal_of_no_gradient": focal_by_hand,
    "mean_of_rows": MeanOfRows.by_hand,
    "wrong_sign": WrongSign.by_hand,
    "confident": Confident.by_hand,
}
"""The formula that each is said to have, by its kind: also a wrong one; cross-entropy for the others."""
