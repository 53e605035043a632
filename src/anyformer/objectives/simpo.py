"""Simple preference optimisation."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.describe import NotNegative
from anyformer.objectives.feed import Feed
from anyformer.objectives.preference import PreferenceObjective
from anyformer.objectives.two_answers import Likelihoods


class SimPOObjective(PreferenceObjective):
    """Simple preference optimisation: -log sigmoid(r(chosen) - r(rejected) - gamma), r(y) = beta / |y| log p(y | x), with |y|
    tokens in y.

    No reference model is needed (Meng et al. 2024, arXiv 2405.14734, equation 6). `gamma` is the paper's; others give
    gamma / beta.
    """

    kind: Literal["simpo"] = "simpo"
    beta: Annotated[float, Field(gt=0)] = 2.0
    """Factor of the mean log-likelihood; the paper: 2 to 2.5."""
    gamma: NotNegative = 1.0
    """The margin that the rewards should have; the paper: 0.3 to 1.6."""

    def rewards(self, answers: Likelihoods, reference: Likelihoods | None) -> Tensor:
        return self.beta * answers.mean

    def losses(self, answers: Likelihoods, rewards: Tensor) -> Tensor:
        return -F.logsigmoid(rewards[:, 0] - rewards[:, 1] - self.gamma)

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return "a model that prefers neither answer", math.log1p(math.exp(self.gamma))
