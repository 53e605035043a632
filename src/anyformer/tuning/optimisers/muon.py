"""Muon: momentum made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.operations import Weight
from anyformer.tuning.groups import WeightGroup
from anyformer.tuning.optimisers.adamw import AdamW
from anyformer.tuning.optimisers.optimiser import Beta, Decay, Optimiser, Pace, Rate

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule

STEP_SCALES: Mapping[str, Callable[[int, int], float]] = {
    "original": lambda outputs, inputs: math.sqrt(max(1.0, outputs / inputs)),
    "match_rms_adamw": lambda outputs, inputs: 0.2 * math.sqrt(max(outputs, inputs)),
}
"""Factors of a step of Muon by the shape of its matrix, (outputs, inputs)."""


class Muon(Optimiser):
    """Orthogonalised momentum for the matrices of layers, AdamW for other weights (Jordan et al. 2024; Liu et al. 2502.16982).

    A matrix (O, I), an expert's too, moves along U V^T of its momentum U S V^T, which `iterations` of Newton and Schulz
    approach: X <- a X + b (X X^T) X + c (X X^T)^2 X, from X = M / |M|.
    """

    kind: Literal["muon"] = "muon"
    learning_rate: Rate = 2e-2
    momentum: Beta = 0.95
    """Decay of the running mean of the gradient."""
    nesterov: bool = True
    """Orthogonalise (1 - momentum) gradient + momentum mean, instead of the mean."""
    iterations: Annotated[int, Field(ge=1, le=50)] = 5
    """Steps of Newton and Schulz."""
    coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    """a, b and c: Jordan's, with which five steps bring singular values from 0.003 of the norm on to between 0.68 and 1.21."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """The numbers of the iterations; `auto`: bf16 where the run's products are in bf16, as they are by default where that is
    faster, else fp32. The iterations enlarge the last digits of a gradient, in which the order of its sums shows. With another
    `accumulation` or number of processes bf16 rounds otherwise here and there: weights of a tiny model differed by up to 6e-2
    of their norm after 12 updates, with fp32 by 5e-6 (AdamW: 6e-8)."""
    scale: Literal["original", "match_rms_adamw"] = "original"
    """Factor of a step: sqrt(max(1, O / I)) (Jordan), or 0.2 sqrt(max(O, I)), whose steps are as large as AdamW's, so that its
    rates fit (Liu)."""
    weight_decay: Decay = 0.1
    others: AdamW = AdamW()
    """For tables, heads and vectors; its own `groups` stay empty."""

    @model_validator(mode="after")
    def _one_list_of_groups(self) -> Muon:
        if self.others.groups:
            raise ValueError("others.groups: groups of all weights stand in one list, groups of the optimiser itself")
        return self

    def orthogonalises(self, weight: Weight) -> bool:
        """Whether a weight is a matrix of a layer, or a stack of them."""
        return weight.linear and weight.is_matrix and weight.fill in ("matrix", "residual")

    def state_bytes(self, weight: Weight) -> int:
        """One moment in fp32, 4 n, for a matrix of a layer; the moments of `others` for all other weights."""
        return 4 * weight.count if self.orthogonalises(weight) else self.others.state_bytes(weight)

    def rate_of(self, weight: Weight) -> float:
        """A matrix (O, I) may change what it gives by steps of norm sqrt(O / I) at any width (Yang et al. 2023, arXiv
        2310.17813), and moves by its `scale`: the ratio of both, as a multiple of the base's."""
        if weight.base is None:
            return 1.0

        def ratio(shape: tuple[int, ...]) -> float:
            outputs, inputs = shape[-2:]
            return math.sqrt(outputs / inputs) / STEP_SCALES[self.scale](outputs, inputs)

        return ratio(weight.shape) / ratio(weight.base)

    def pace(self, weight: Weight, group: WeightGroup) -> Pace:
        return super().pace(weight, group) if self.orthogonalises(weight) else self.others.pace(weight, group)

    def beside(self, products: str) -> Muon:
        chosen: Literal["bf16", "fp32"] = "bf16" if products == "bf16" else "fp32"
        return self.but(precision=chosen) if self.precision == "auto" else self

    def rule(self, weight: Weight) -> Rule:
        if self.precision == "auto":
            return self.beside("fp32").rule(weight)
        from anyformer.tuning.optimisers.muon_module import NUMBERS, MuonRule

        if not self.orthogonalises(weight):
            return self.others.rule(weight)
        return MuonRule(self.momentum, self.nesterov, self.iterations, self.coefficients, NUMBERS[self.precision], self.scale)
