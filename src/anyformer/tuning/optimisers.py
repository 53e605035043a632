"""Optimisers as values: their settings, the bytes of their state for a weight, and the rate and decay of each weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from anyformer.describe import NotNegative, Positive, Value, with_kind
from anyformer.operations import Weight
from anyformer.tuning.groups import WeightGroup, groups_of

Rate = Annotated[float, Field(gt=0, description="Peak rate; the schedule scales it.")]
Decay = Annotated[float, Field(ge=0, description="Share of a weight that goes per step, times the learning rate.")]
Beta = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Pace:
    """The peak rate of one weight, and its decay."""

    rate: float
    decay: float


class _Optimiser(Value):
    """What all optimisers have. Weight decay is decoupled from the gradient: w <- w - rate decay w, for matrices alone."""

    averages: ClassVar[bool] = False
    """Whether it evaluates other weights than those it trains, and keeps them in step by itself: its rate must not fall."""
    learning_rate: Rate
    weight_decay: Decay
    groups: tuple[WeightGroup, ...] = ()
    """Weights with another rate or decay, by their paths; the first group that names a weight counts."""

    def state_bytes(self, weight: Weight) -> int:
        """Bytes of the state of a weight, but for counters of 8 bytes."""
        raise NotImplementedError

    def paces(self, weights: Mapping[str, Weight]) -> dict[str, Pace]:
        """Rate and decay of every weight, by path. Raises `UserError` for a pattern of `groups` that names none."""
        grouped = groups_of(self.groups, weights)
        return {path: self._pace(weight, grouped.get(path, EVERY)) for path, weight in weights.items()}

    def _pace(self, weight: Weight, group: WeightGroup) -> Pace:
        factor = float(weight.decays) if group.decay_factor is None else group.decay_factor
        wide = self.rate_of(weight) * self.share_of(weight)
        # A step takes the rate times the decay of a weight: the same share at any width.
        return Pace(self.learning_rate * group.rate_factor * wide, self.weight_decay * factor / wide)

    def rate_of(self, weight: Weight) -> float:
        """The factor of the rate of a weight that is wider than at its base (`MaximalUpdate`); 1 of one without a base.

        Here that of steps whose numbers are all about as large as the rate, whatever the gradient: 1 / m, m the times that it
        has more inputs, since so many more numbers of a step point along them.
        """
        return 1.0 if weight.fill == "head" else 1 / weight.wider.inputs

    def share_of(self, weight: Weight) -> float:
        """The factor of its rate that follows the depth: of steps that are as large whatever the gradient."""
        return weight.share


STEP_SCALES: Mapping[str, Callable[[int, int], float]] = {
    "original": lambda outputs, inputs: math.sqrt(max(1.0, outputs / inputs)),
    "match_rms_adamw": lambda outputs, inputs: 0.2 * math.sqrt(max(outputs, inputs)),
}
"""Factors of a step of Muon by the shape of its matrix, (outputs, inputs)."""
EVERY = WeightGroup(paths=("*",))
"""The group of weights that no other group names."""


class _Adam(_Optimiser):
    """The settings of AdamW, for moments of any number of bits."""

    learning_rate: Rate = 1e-3
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Decay of the running means of the gradient and of its square."""
    eps: Positive = 1e-8
    """Added to the root of the mean square, against division by 0."""
    weight_decay: Decay = 0.1


class AdamW(_Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101) of matrices, not of gains and biases."""

    kind: Literal["adamw"] = "adamw"

    def state_bytes(self, weight: Weight) -> int:
        """Two moments in fp32: 8 n."""
        return 8 * weight.count


class AdamW8bit(_Adam):
    """AdamW with moments in 8 bits and a scale per block of numbers (Dettmers et al. 2021, arXiv 2110.02861).

    A number m of a block is stored as the code of the map nearest to m / max |m|; the paper's dynamic map has codes evenly
    spread over every power of ten from 1e-6 to 1: small numbers keep their relative precision.
    """

    kind: Literal["adamw_8bit"] = "adamw_8bit"
    block: Annotated[int, Field(ge=1)] = 256
    """Numbers that share an fp32 scale; the paper has 2,048, bitsandbytes 256."""
    smallest: Annotated[int, Field(ge=0)] = 4096
    """Weights with fewer numbers have moments in fp32, as in bitsandbytes."""

    def state_bytes(self, weight: Weight) -> int:
        """Two moments: 2 (n + 4 ceil(n / block)), or 8 n where n < `smallest`."""
        n = prod(weight.shape)
        return weight.copies * (8 * n if n < self.smallest else 2 * (n + 4 * -(-n // self.block)))


class ScheduleFree(_Adam):
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


class SGD(_Optimiser):
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


class Lion(_Optimiser):
    """Steps along the sign of an average of gradients (Chen et al. 2023, arXiv 2302.06675): one moment."""

    kind: Literal["lion"] = "lion"
    learning_rate: Rate = 1e-4
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    """Weight of the mean in the step taken, and the decay of that mean."""
    weight_decay: Decay = 1.0

    def state_bytes(self, weight: Weight) -> int:
        """One moment in fp32: 4 n."""
        return 4 * weight.count


class Adafactor(_Optimiser):
    """The second moment of a matrix as the product of a row and a column, no first moment (arXiv 1804.04235).

    The rate is relative: a step is `learning_rate` times the root mean square of the weight. An expert counts as a weight of
    its own. The paper's rate min(1e-2, 1 / sqrt(t)) is the schedule `inverse_square_root` with `warmup` = 0, `flat` = 10,000.
    """

    kind: Literal["adafactor"] = "adafactor"
    learning_rate: Rate = 1e-2
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Exponent of the second moment's average: 1 - t^-decay."""
    clip: Positive = 1.0
    """Largest root mean square of a step, before its rate; the paper's d."""
    least_size: NotNegative = 1e-3
    """A weight's root mean square counts as this at least, so that zeros can move; the paper's epsilon 2."""
    eps: Positive = 1e-30
    """Added to the square of the gradient, against division by 0; the paper's epsilon 1."""
    weight_decay: Decay = 0.0

    def rate_of(self, weight: Weight) -> float:
        """A step is as large as the weight, which is smaller itself where both sides are wider: 1 / sqrt(m), else 1."""
        wider = weight.wider
        return float(wider.inputs**-0.5) if weight.fill != "head" and wider.outputs != 1 else 1.0

    def state_bytes(self, weight: Weight) -> int:
        """4 (O + I) per matrix (O, I), 4 n for a vector."""
        if not weight.decays:
            return 4 * weight.count
        *stacked, outputs, inputs = (1, *weight.shape)
        return 4 * weight.copies * prod(stacked) * (outputs + inputs)


class Muon(_Optimiser):
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
    precision: Literal["bf16", "fp32"] = "bf16"
    """The numbers of the iterations. They enlarge the last digits of a gradient, in which the order of its sums shows. With
    another `accumulation` or number of processes bf16 rounds otherwise here and there: weights of a tiny model differed by up
    to 6e-2 of their norm after 12 updates, with fp32 by 5e-6 (AdamW: 6e-8)."""
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

    def _pace(self, weight: Weight, group: WeightGroup) -> Pace:
        return super()._pace(weight, group) if self.orthogonalises(weight) else self.others._pace(weight, group)


Optimiser = Annotated[
    AdamW | AdamW8bit | ScheduleFree | SGD | Lion | Adafactor | Muon,
    Field(discriminator="kind"),
    BeforeValidator(with_kind("adamw")),
]
