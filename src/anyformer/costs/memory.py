"""Memory of training on one device: weights, gradients, optimiser state, copies, activations, logits."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from anyformer.costs.activations import activations
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan
from anyformer.tally import Shape


@dataclass(frozen=True)
class States:
    """Bytes per parameter that stay from step to step; `master`: an fp32 copy of weights that are themselves narrower.

    Adam's two moments in fp32 are 8 (Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054, section 3.1).
    """

    weights: int = 4
    gradients: int = 4
    optimiser: int = 8
    master: int = 0


ADAM_FP32 = States()
"""Weights in fp32, which is also how this library trains under `precision = "bf16"`: products read copies in bf16."""
ADAM_BF16 = States(weights=2, gradients=2, master=4)
"""Weights and gradients in bf16 beside an fp32 master copy: 16 bytes per parameter, as in ZeRO, section 3.1."""


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes at the end of a forward pass, when most is kept; with layers computed again, while the largest of them is.

    `copies`: master weights and weights in the type of products; `activations`: kept for backward but for the loss;
    `logits`: kept by logits and loss. What single operations of the backward pass need for a moment comes on top.
    """

    weights: int
    gradients: int
    optimiser: int
    copies: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        return sum(asdict(self).values())


def training_memory(
    architecture: Architecture,
    *,
    batch: int,
    length: int,
    source_length: int | None = None,
    plan: Plan | None = None,
    states: States = ADAM_FP32,
    checkpointing: Checkpointing | None = None,
) -> TrainingMemory:
    """N parameters take (weights + gradients + optimiser + master) * N bytes; activations are exact for eager mode.

    `length` serves source and target, where there are two, unless `source_length` is given. Weights stored in bf16 need no
    copies for products. `checkpointing`: what is computed again, by default what the plan says.
    """
    plan = plan or Plan()
    plan = plan if checkpointing is None else plan.but(checkpointing=checkpointing)
    source = architecture.source_of(length, source_length)
    shape = Shape(batch=batch, length=length, source=source)
    count = architecture.folded_cost(shape, plan).parameters
    kept = activations(architecture, shape, plan)
    casts = kept.casts + kept.again_casts
    return TrainingMemory(
        weights=states.weights * count,
        gradients=states.gradients * count,
        optimiser=states.optimiser * count,
        copies=states.master * count + (casts if states.weights > plan.activation_bytes else 0),
        activations=kept.kept + kept.again,
        logits=kept.loss,
    )
