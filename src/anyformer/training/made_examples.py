"""What models make of examples before a loss reads them: answers of the model in training, and what partners prepare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, Partners, Setting, prepared
from anyformer.objectives.own_samples import OwnSamples
from anyformer.training.computing_place import Within
from anyformer.training.judges import judges_at
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.precision import autocast
from anyformer.training.run import Run
from anyformer.training.step import Outcome


def check_own_answers(run: Run, samples: OwnSamples, ranks: Ranks) -> None:
    """Raise `UserError` for processes that divide weights, of which some would wait for others while they sample."""
    mesh = run.plan.mesh
    if ranks.size > 1 and mesh.divided > 1:
        raise UserError(
            f"the {run.objective.kind} objective samples from the model in training, each process as many tokens as its own "
            f"answers have, and plan.mesh divides a copy of the model among {mesh.divided} processes, which wait for one "
            "another with every token: leave all but plan.mesh.data out"
        )


def own_answers(
    samples: OwnSamples | None, model: Transformer, partners: Partners, prompts: Examples, size: int, run: Run, ranks: Ranks,
    within: Within,
) -> tuple[Examples, Mapping[str, Tensor]]:  # fmt: skip
    """The examples that the model makes of its prompts where it does, and the sums that all processes tell of theirs; partners
    read `size` samples at a time."""
    if samples is None:
        return prompts, {}
    with autocast(run.plan, model.device):
        own, told = within(partial(samples.learnt, model, prompts.to(model.device), partners, size))
    every = ranks.of_replicas({name: float(value) for name, value in told.items()})
    names = dict.fromkeys(name for one in every for name in one)
    return own, {name: torch.tensor(sum(one.get(name, 0.0) for one in every), dtype=torch.float64) for name in names}


@torch.no_grad()
def prepared_piece(piece: Examples, model: Transformer, partners: Partners, run: Run, within: Within) -> Examples:
    """A micro-batch as the loss reads it. Without a partner that prepares it no weights are gathered."""
    if all(partner.prepares is None for partner in run.objective.partners.values()):
        return piece
    with autocast(run.plan, model.device):
        return within(partial(prepared, run.objective, piece, partners))


def samples_of(run: Run, setting: Setting, ranks: Ranks, device: torch.device | str) -> OwnSamples | None:
    """What samples from the model in training, where an objective does; None otherwise. Refuses what cannot."""
    make = run.objective.traits.own_samples
    if make is None:
        return None
    samples = make(run.data, setting, judges_at(run.objective.traits.judges, run.plan, device))
    check_own_answers(run, samples, ranks)
    return samples


def told_figures(samples: OwnSamples | None, number: int, outcome: Outcome, say: Callable[[str], None]) -> dict[str, Any]:
    """A line's figures of what the model's own samples tell of update `number`; what those of the first mean is said."""
    if samples is None:
        return {}
    figures = samples.figures(outcome.sums, outcome.largest)
    remark = samples.remark(figures) if number == 1 else None
    if remark is not None:
        say(remark)
    return {"objective": figures}
