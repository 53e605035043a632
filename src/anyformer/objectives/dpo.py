"""Direct preference optimisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.objectives.aspects import Partner
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Partners
from anyformer.objectives.preference import Likelihoods, PreferenceObjective
from anyformer.parts.call.reports import Auxiliary


class DPOObjective(PreferenceObjective):
    """Direct preference optimisation: -(1 - s) log sigmoid(d) - s log sigmoid(-d), d = r(chosen) - r(rejected),
    r(y) = beta (log p(y | x) - log p_ref(y | x)).

    p_ref is the model as it was when the run began (Rafailov et al. 2023, arXiv 2305.18290, equation 7); s > 0: answers are
    taken to be exchanged with this probability (Mitchell 2023, "cDPO").
    """

    kind: Literal["dpo"] = "dpo"
    beta: Annotated[float, Field(gt=0)] = 0.1
    """How strongly the model is held near the one it began as."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """s, the share of pairs that are expected to be the wrong way round."""

    @property
    def partners(self) -> Mapping[str, Partner]:
        return {"reference": Partner()}

    def reference(self, examples: Examples, partners: Partners) -> Likelihoods | None:
        with torch.no_grad():
            return self.likelihoods(partners["reference"], examples, None, Auxiliary(self.counted(examples)))

    def rewards(self, answers: Likelihoods, reference: Likelihoods | None) -> Tensor:
        assert reference is not None
        return self.beta * (answers.total - reference.total)

    def losses(self, answers: Likelihoods, rewards: Tensor) -> Tensor:
        margins = rewards[:, 0] - rewards[:, 1]
        return -(1 - self.label_smoothing) * F.logsigmoid(margins) - self.label_smoothing * F.logsigmoid(-margins)

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return "a model that prefers neither answer", math.log(2)
