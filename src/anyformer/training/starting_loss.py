"""The loss that a run starts from: that of the model which it trains further, on the same held-out data."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import UserError
from anyformer.loading import load
from anyformer.model.adapted import adapted
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.training import budget as budgets
from anyformer.training.evaluate import evaluate
from anyformer.training.trainer import Trainer


@dataclass(frozen=True)
class Before:
    """The model that a run started from, and its loss where that of the run was measured."""

    model: Transformer
    loss: float


def before(trainer: Trainer, rows: int, deadline: float | None) -> Before | None:
    """Measure the model that a run started from; None where there is none, or no time or memory for a second one.

    A run in several processes has its model in shares, and one of other sizes another model: neither is compared.
    """
    run, ranks = trainer.run, trainer.ranks
    late = deadline is not None and budgets.clock() > deadline
    if run.start_from is None or ranks.size > 1 or late:
        return None
    try:
        model, _ = load(run.start_from, device=trainer.model.device)
    except (UserError, OSError):  # it may be gone since the run began
        return None
    weights = adapted(run.architecture, run.tuning.adapter).trained_cost(Shape(source=1)).weights
    if {name: tuple(x.shape) for name, x in model.named_parameters()} != {name: each.shape for name, each in weights.items()}:
        return None
    found = evaluate(
        model, run.objective, trainer.held_out, run.plan, most=rows, partners=trainer.partners, names=trainer.corpus.names,
        samples=trainer.samples,
    )  # fmt: skip
    return Before(model, found.loss)
