"""Direct preference optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from torch import Tensor

from anyformer.describe import with_kind
from anyformer.objectives.aspects import Partner
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Partners
from anyformer.objectives.pair_losses import LogisticLoss, PairLoss
from anyformer.objectives.preference import PreferenceObjective
from anyformer.objectives.two_answers import REFERENCE, Likelihoods


class DPOObjective(PreferenceObjective):
    """Direct preference optimisation: l(r(chosen) - r(rejected)), r(y) = beta (log p(y | x) - log p_ref(y | x)).

    p_ref is the model as it was when the run began; l(m) = -log sigmoid(m) (Rafailov et al. 2023, arXiv 2305.18290, eq. 7).
    With another `loss` it is cDPO (`smoothed`), robust DPO (`robust`), IPO (`squared`) or SLiC's hinge; with `per_token` and
    `squared` IPO as TRL has it.
    """

    kind: Literal["dpo"] = "dpo"
    beta: Annotated[float, Field(gt=0)] = 0.1
    """How strongly the model is held near the one it began as."""
    loss: Annotated[PairLoss, BeforeValidator(with_kind("logistic"))] = LogisticLoss()
    """l, the loss of a margin between the rewards."""
    per_token: bool = False
    """Divide log p(y | x) - log p_ref(y | x) by the number of tokens in y, so that a long answer has no greater reward for its
    length (Meng et al. 2024, arXiv 2405.14734, table 3; TRL's `sigmoid_norm`). beta is then greater, as 2 to 10."""

    @property
    def partners(self) -> Mapping[str, Partner]:
        return {REFERENCE: Partner()}

    def reference(self, examples: Examples, partners: Partners) -> Likelihoods | None:
        return self.before(examples, partners)

    def rewards(self, answers: Likelihoods, reference: Likelihoods | None) -> Tensor:
        assert reference is not None
        return self.beta * answers.beside(reference, per_token=self.per_token)

    def losses(self, answers: Likelihoods, rewards: Tensor) -> Tensor:
        return self.loss.losses(rewards[:, 0] - rewards[:, 1], self.beta)

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return "a model that prefers neither answer", self.loss.indifferent(self.beta)
