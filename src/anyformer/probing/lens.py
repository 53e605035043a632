"""Logit lens: what the head would say after every layer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.model.loss import likeliest
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples
from anyformer.objectives.answers import AnswersObjective
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.layers.stack_module import StackModule


@dataclass(frozen=True)
class Lens:
    """After every layer of the stack that the head reads: `accuracy` of all targets, and `probabilities` (layers, targets) of
    the targets of the first row, which stand at `positions`."""

    accuracy: tuple[float, ...]
    probabilities: tuple[tuple[float, ...], ...]
    positions: tuple[int, ...]


def lens(model: Transformer, objective: AnswersObjective, examples: Examples) -> Lens:
    """The stream after every layer, through the final norm and the head (the logit lens, nostalgebraist 2020).

    The last one is what the model says. Residual streams become one first, where there are several.
    """
    stack, streams = model.get_submodule(model.output), list[Tensor]()

    def keep(module: Any, given: Any, output: Tensor) -> None:
        streams.append(output)

    with ExitStack() as hooks, torch.no_grad():
        for layer in stack.layers:  # type: ignore[union-attr]
            hooks.callback(layer.register_forward_hook(keep).remove)
        last = objective.logits(model, examples, None, Auxiliary(objective.counted(examples)))
        lines = [_said(model, stream) for stream in streams]
    valid = examples.targets != IGNORED
    first = valid[0]
    wanted = examples.targets[0][first]
    accuracy, probabilities = [], []
    for logits in (each[:, -last.shape[1] :] for each in lines):
        accuracy.append(float((likeliest(logits) == examples.targets)[valid].float().mean()))
        probabilities.append(logits[0][first].float().softmax(-1).gather(1, wanted[:, None])[:, 0])
    return Lens(
        tuple(accuracy), tuple(tuple(row.tolist()) for row in probabilities), tuple(torch.nonzero(first)[:, 0].tolist())
    )


def _said(model: Transformer, stream: Tensor) -> Tensor:
    stack = model.get_submodule(model.output)
    assert isinstance(stack, StackModule)
    condition = None if stack.condition is None else stack.condition(len(stream), None, None)
    return model.logits(stack.exit(stream, condition))
