"""What of a model learns in a run: adapters put in place, all other weights kept to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.model.adapted import adapted
from anyformer.model.adapters import adapt
from anyformer.model.transformer import Transformer
from anyformer.model.unlearnt import unlearnt
from anyformer.operations import Shape
from anyformer.quantising import FORMATS, HALF, Quantising
from anyformer.quantising.model import hold
from anyformer.quantising.planes import weights_of
from anyformer.quantising.tensor import Quantised
from anyformer.tuning import Tuned, Tuning


def check_tuning(tuning: Tuning, architecture: Architecture) -> Tuned:
    """The weights that learn. Raises `UserError`, before any work, for patterns that name nothing and what is only priced."""
    if tuning.base != "fp32" and tuning.everything:
        raise UserError(
            f"tuning.base = {tuning.base!r}: every weight learns, so none is frozen; name an adapter, or leave it out"
        )
    adapted(architecture, tuning.adapter)
    return tuning.of(architecture.trained_cost(Shape(source=1)))


def tune(model: Transformer, tuning: Tuning, seed: int) -> None:
    """Add the adapter, and let only those weights take gradients that learn."""
    learning = tuning.of(model.architecture.trained_cost(Shape(source=1))).learning
    if tuning.adapter is not None:
        adapt(model, tuning.adapter, seed)
    for name, parameter in model.named_parameters():
        if name not in learning:
            parameter.requires_grad_(False)


def rest(model: Transformer, tuning: Tuning) -> None:
    """Put the weights that do not learn into the format of `tuning.base`: matrices in few bits, all others in bf16.

    Call it when the weights have the values that they keep. Each is restored for the operation that reads it, so the type that
    the model computes in is the same with every base (QLoRA, Dettmers et al. 2023, arXiv 2305.14314).
    """
    if tuning.base == "fp32":
        return
    declared = model.architecture.trained_cost(Shape(source=1))
    learning, format = tuning.of(declared).learning, FORMATS[tuning.base]
    for path, weight in declared.weights.items():
        value = model.get_parameter(path)
        if path not in learning and value.is_floating_point() and not isinstance(value, Quantised):
            few = isinstance(format, Quantising) and weight.quantisable
            hold(model, path, format if few else HALF)


@dataclass(frozen=True)
class Still:
    """Weights that do not learn although a rule moves them without a gradient: statistics of norms, corrections of routers."""

    held: Mapping[str, Tensor]

    @staticmethod
    def of(model: Transformer, tuning: Tuning) -> Still:
        """Copies of them, as they are now; call it on a model before `tune`, or with its weights restored."""
        if tuning.everything:
            return Still({})
        moved = unlearnt(model.architecture)
        learning = tuning.of(model.architecture.trained_cost(Shape(source=1))).learning
        weights = weights_of(model)
        return Still({name: weights[name].detach().clone() for name in sorted(moved - learning.keys())})

    @torch.no_grad()
    def put_back(self, model: Transformer) -> None:
        """Give them their values again, after an update."""
        weights = weights_of(model) if self.held else {}
        for name, value in self.held.items():
            weights[name].copy_(value)


def learning_line(model: Transformer, tuning: Tuning) -> str:
    """How many parameters learn, in words; of a model of which this process may have a part."""
    learn = tuning.of(model.bare.trained_cost(Shape(source=1))).parameters
    every = sum(weight.count for weight in model.declared.values())
    return f"{learn:,} of {every:,} parameters learn ({learn / every:.2%})"
