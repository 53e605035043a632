"""Odds ratio preference optimisation."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.objectives.feed import Feed
from anyformer.objectives.preference import PreferenceObjective
from anyformer.objectives.two_answers import Likelihoods


class ORPOObjective(PreferenceObjective):
    """Odds ratio preference optimisation: -l(chosen) - weight log sigmoid(o(chosen) - o(rejected)), l(y) = log p(y | x) / |y|,
    o(y) = l(y) - log(1 - exp l(y)), the log of the odds of y.

    No reference model is needed, since the first term keeps the model near the chosen answers (Hong et al. 2024, arXiv
    2403.07691, equations 3 to 7; `weight` is their lambda, TRL's beta).
    """

    kind: Literal["orpo"] = "orpo"
    weight: Annotated[float, Field(gt=0)] = 0.1
    """Factor of the odds ratio's term."""

    def rewards(self, answers: Likelihoods, reference: Likelihoods | None) -> Tensor:
        return self.weight * answers.mean

    def losses(self, answers: Likelihoods, rewards: Tensor) -> Tensor:
        mean = answers.mean
        # Kept from log(0) where a model is certain of an answer.
        odds = mean - torch.log(-torch.expm1(mean.clamp(max=-1e-6)))
        return -mean[:, 0] - self.weight * F.logsigmoid(odds[:, 0] - odds[:, 1])

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return "a model that finds all tokens equally likely", math.log(outputs) + self.weight * math.log(2)
