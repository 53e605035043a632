"""Moments of activations on a text: which directions of its inputs a weight sees."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.data import IGNORED, Split, windows
from anyformer.model.transformer import Transformer
from anyformer.transforming.errors import TransformError
from anyformer.transforming.planned import Transformation

LENGTH, BATCH, WINDOWS = 256, 8, 64
"""Up to so many tokens in each of so many windows, spread evenly over the text."""


def check_moments(transformation: Transformation) -> None:
    """Refuse a change for which no activations are read, or none can be."""
    if not any(step.inputs for step in transformation.steps):
        raise TransformError("no operation of this change reads activations; leave --calibrate out")
    if transformation.old.two_inputs or transformation.old.embedding.symbols is None:
        raise TransformError(
            "activations are read on text alone, and this model reads more or something else; leave --calibrate out"
        )


def moments_of(model: Transformer, transformation: Transformation, text: Split) -> Mapping[str, Tensor]:
    """E[x x^T], (D, D) in fp64, of the inputs of every module that a step can use them of, on a text in the model's tokens."""
    check_moments(transformation)
    names = [step.inputs for step in transformation.steps if step.inputs]
    tables = [stack.max_length for stack in model.architecture.stacks.values()]
    length = min(LENGTH, len(text) - 1, *(table or LENGTH for table in tables))
    sums = [_Sum(torch.zeros((), dtype=torch.float64, device=model.device)) for _ in names]
    count = 0
    with contextlib.ExitStack() as hooks, torch.no_grad():
        for name, each in zip(names, sums, strict=True):
            hooks.callback(model.get_submodule(name).register_forward_pre_hook(each.add).remove)
        for batch in windows(text, length, BATCH, most=WINDOWS):
            real_BT = torch.from_numpy(batch.targets != IGNORED).to(model.device)
            for each in sums:
                each.real = real_BT
            model(torch.from_numpy(batch.tokens).to(model.device))
            count += batch.valid
    return {name: each.total / count for name, each in zip(names, sums, strict=True)}


@dataclass
class _Sum:
    """The sum of x x^T over the real positions that a module was given."""

    total: Tensor
    real: Tensor | None = None

    def add(self, module: nn.Module, given: tuple[Any, ...]) -> None:
        rows_ZD = given[0][self.real].double()
        self.total = self.total + rows_ZD.mT @ rows_ZD
