"""Optimisers as values: their settings, and the bytes of their state for a weight."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from anyformer.describe import Value, with_kind
from anyformer.operations import Weight

Rate = Annotated[float, Field(gt=0, description="Peak rate; the schedule scales it.")]
Decay = Annotated[float, Field(ge=0, description="Share of a weight that goes at each step, times the learning rate.")]
Beta = Annotated[float, Field(ge=0, lt=1)]


class _Adam(Value):
    """The settings of AdamW, for moments of any number of bits."""

    learning_rate: Rate = 1e-3
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Decay of the running means of the gradient and of its square."""
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """Added to the root of the mean square, against division by 0."""
    weight_decay: Decay = 0.1


class AdamW(_Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101) of matrices, not of gains and biases."""

    kind: Literal["adamw"] = "adamw"

    def state_bytes(self, weight: Weight) -> int:
        """Two moments in fp32: 8 n."""
        return 8 * weight.count


class AdamW8bit(_Adam):
    """AdamW with moments in 8 bits and a scale for each block of numbers (Dettmers et al. 2021, arXiv 2110.02861).

    Priced, not trained yet.
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


class SGD(Value):
    """Stochastic gradient descent; with momentum one moment.

    Priced, not trained yet.
    """

    kind: Literal["sgd"] = "sgd"
    learning_rate: Rate = 1e-2
    momentum: Beta = 0.9
    """Decay of the running mean of the gradient."""
    weight_decay: Decay = 0.0

    def state_bytes(self, weight: Weight) -> int:
        """The momentum in fp32: 4 n, or nothing without one."""
        return 4 * weight.count if self.momentum else 0


class Lion(Value):
    """Steps along the sign of an average of gradients (Chen et al. 2023, arXiv 2302.06675): one moment.

    Priced, not trained yet.
    """

    kind: Literal["lion"] = "lion"
    learning_rate: Rate = 1e-4
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    """Weight of the mean in the step taken, and the decay of that mean."""
    weight_decay: Decay = 1.0

    def state_bytes(self, weight: Weight) -> int:
        """One moment in fp32: 4 n."""
        return 4 * weight.count


class Adafactor(Value):
    """The second moment of a matrix as the product of a row and a column, no first moment (arXiv 1804.04235).

    Priced, not trained yet.
    """

    kind: Literal["adafactor"] = "adafactor"
    learning_rate: Rate = 1e-2
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Exponent of the second moment's average: 1 - t^-decay."""
    weight_decay: Decay = 0.0

    def state_bytes(self, weight: Weight) -> int:
        """4 (O + I) for each matrix (O, I), 4 n for a vector."""
        *stacked, outputs, inputs = (1, *weight.shape)
        if len(weight.shape) < 2:
            return 4 * weight.count
        return 4 * weight.copies * prod(stacked) * (outputs + inputs)


class Muon(Value):
    """Orthogonalised momentum for the matrices of layers, AdamW for other weights (Jordan et al. 2024; Liu et al. 2502.16982).

    Priced, not trained yet.
    """

    kind: Literal["muon"] = "muon"
    learning_rate: Rate = 2e-2
    momentum: Beta = 0.95
    """Decay of the running mean of the gradient."""
    weight_decay: Decay = 0.1
    others: AdamW = AdamW()
    """For tables, heads and vectors."""

    def state_bytes(self, weight: Weight) -> int:
        """One moment in fp32, 4 n, for a matrix of a layer; the moments of `others` for all other weights."""
        hidden = weight.decays and weight.fill in ("matrix", "residual")
        return 4 * weight.count if hidden else self.others.state_bytes(weight)


Optimiser = Annotated[
    AdamW | AdamW8bit | SGD | Lion | Adafactor | Muon, Field(discriminator="kind"), BeforeValidator(with_kind("adamw"))
]
