"""Logit lens on a task: how many targets the head would say after every layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyformer.data import IGNORED
from anyformer.inspecting import read_out, streams
from anyformer.model.loss import likeliest
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples
from anyformer.objectives.answers import AnswersObjective
from anyformer.parts.call.reports import Auxiliary


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
    layers = streams(model)[1:]
    with torch.no_grad(), model.watch(*layers) as seen:
        last = objective.logits(model, examples, None, Auxiliary(objective.counted(examples)))
        lines = [read_out(model, seen[path]) for path in layers]
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
