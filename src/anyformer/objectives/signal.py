"""The loss of an objective as a function of sizes, from which the memory of a step is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from anyformer.data import Data
from anyformer.describe import Value
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.objective import Objective, beside, loss_of, prepared
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise

OWN = ""
"""The name of the run's own model among those of a step."""


@dataclass(frozen=True)
class ObjectiveSignal:
    """The loss of an objective on made-up examples of data: a `costs.saved.TracedLoss`.

    `models`: the architectures of a step by name, the run's own under `OWN`; `asked`: the name of the one whose memory is asked
    for.
    """

    objective: Objective
    data: Data
    models: Mapping[str, Architecture] = field(hash=False)
    asked: str = OWN

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.objective, *self.models.values()

    @property
    def rows_each(self) -> int:
        return self.objective.sizes.rows

    @property
    def position_bytes(self) -> int:
        return self.objective.sizes.position_bytes

    def loss_bytes(self, logits: int, each: int) -> int:
        return self.objective.sizes.loss_bytes(logits, each)

    def work(self, shape: Shape) -> int:
        return self.objective.sizes.work(self.models[OWN], shape) if self.asked == OWN else 0

    @property
    def others(self) -> Mapping[str, Architecture]:
        return {name: architecture for name, architecture in self.models.items() if name != self.asked}

    def shape(self, samples: int, length: int) -> Shape:
        return self.objective.sizes.shape(self.models[OWN], self.data, samples, length)

    def facts(self, shape: Shape) -> Any:
        sample = replace(shape, batch=self.rows_each)
        tensors = self.objective.made_up(self.models[OWN], self.data, sample).tensors()
        return {
            "objective": self.objective.plain(),
            "examples": [None if x is None else [str(x.dtype), list(x.shape)] for x in tensors],
            "models": {name: architecture.digest for name, architecture in self.models.items()},
            "asked": self.asked,
        }

    def loss(self, model: Transformer, shape: Shape, others: Mapping[str, Transformer]) -> Tensor:
        models = {**others, self.asked: model}
        own = models.pop(OWN)
        for name, partner in beside(self.objective).items():
            models[name].train(partner.learns and own.training)
        examples = self.objective.made_up(self.models[OWN], self.data, shape).to(model.device)
        with torch.no_grad():
            examples = prepared(self.objective, examples, models)
        return loss_of(self.objective, own, examples, Noise.at(0, 0, examples.rows), None, models)
