"""Held-out loss and metrics: mean loss over the targets, and of running text perplexity and bits per byte."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.model import Transformer
from anyformer.objectives import Feed, Objective, Partners, added
from anyformer.parts.call.reports import Auxiliary, Load, add_loads
from anyformer.plan import Plan
from anyformer.training.precision import autocast


@dataclass(frozen=True)
class Evaluated:
    """`loss`: mean over `count` targets; `seen` of the split's `whole` tokens or records (`unit`) were read.

    `bits_per_byte` of the text, None where the loss is not that of a text; `metrics`: the objective's own, such as accuracy;
    `loads`: load of the experts, by layer.
    """

    loss: float
    count: int
    seen: int
    whole: int
    unit: str = "tokens"
    bits_per_byte: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))


def evaluate(
    model: Transformer,
    objective: Objective,
    feed: Feed,
    plan: Plan,
    *,
    most: int | None = None,
    partners: Partners | None = None,
    names: Mapping[str, tuple[str, ...]] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Evaluated:
    """The loss and metrics over a split, or over `most` rows spread evenly over it, without the objective's penalties.

    `names`: the classes of the data. `progress` is called after each batch, with the tokens or records read so far.
    """
    device = model.device
    totals: dict[str, Tensor] = {}
    loads: dict[str, Load] = {}
    count, rows, seen = 0.0, 0, 0
    modes = {each: each.training for each in (model, *(partners or {}).values())}
    for each in modes:
        each.eval()
    try:
        with torch.no_grad(), autocast(plan, device):
            for part in feed.once(most):
                examples = part.to(device)
                auxiliary = Auxiliary(objective.counted(examples))
                totals = added((totals, objective.statistics(model, examples, auxiliary, partners or {})))
                loads = add_loads(loads, auxiliary.loads)
                count, rows = count + examples.count, rows + len(examples.rows)
                seen = min(rows * feed.each, feed.whole)
                progress(seen)
    finally:
        for each, training in modes.items():
            each.train(training)
    loss = float(totals["loss"]) / count if count else math.nan
    bits = loss / math.log(2) / feed.bytes_each if objective.likelihood and feed.bytes_each else None
    metrics = objective.metrics(totals, names or {})
    return Evaluated(loss, round(count), seen, feed.whole, feed.unit, bits, metrics, loads)
