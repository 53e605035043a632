"""What of a run its price depends on: the weights that learn, their optimiser, and averages of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from anyformer.costs.examples import without_numbers
from anyformer.costs.fine_tuning import Method
from anyformer.costs.flop_counter import MetaFlops
from anyformer.costs.memory import ADAM
from anyformer.costs.step import PricedStep, Second
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.objectives import ObjectiveSignal, Partner, beside
from anyformer.objectives.signal import OWN
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.resolving import architecture as resolved
from anyformer.training.adapting import tune
from anyformer.training.partners import FOLDER
from anyformer.training.run import Run


def method_of(run: Run) -> Method | None:
    """How the run fine-tunes; None for a run in which every weight learns and no average is kept."""
    if run.tuning.everything and run.average is None:
        return None
    precision = run.plan.precision
    return Method(
        "this run",
        run.tuning,
        run.optimiser,
        "fp32" if precision.weight_bytes == ADAM.weights else "bf16",
        averaged=run.average is not None,
        masters=precision.masters,
    )


def step_of(run: Run, directory: Path | None = None) -> PricedStep:
    """An update of the run, to be priced: its objective's loss, its second models and reward models. `directory`: the run's,
    once it is there."""
    partners = beside(run.objective)
    models = {name: _described(run, name, partner, directory) for name, partner in partners.items()}
    data = next(iter(run.data.components.values()))
    signal = ObjectiveSignal(run.objective, data, {OWN: run.architecture, **models})
    seconds = (
        Second(
            models[name],
            replace(signal, asked=name) if partner.learns else None,
            partner.predicted,
            partner.length and partner.length(run.architecture, data),
            not partner.of_samples,
        )
        for name, partner in partners.items()
    )
    traits = run.objective.traits
    judges = tuple(map(resolved, traits.judges))
    return PricedStep(run.architecture, run.optimiser, method_of(run), signal, tuple(seconds), judges, traits.uses)


def _described(run: Run, name: str, partner: Partner, directory: Path | None) -> Architecture:
    """The architecture of a second model: the one kept in the run's directory, since the one that it came from may be gone."""
    if partner.path is not None:
        kept = None if directory is None else directory / FOLDER / name
        return resolved(partner.path if kept is None or not kept.is_dir() else kept)
    return partner.described(run.architecture) or run.architecture


def flops_of(run: Run, directory: Path | None = None) -> int:
    """FLOPs of an update, with every query-key pair, and without those of sampling; `directory`: see `step_of`."""
    step = step_of(run, directory)
    return step.uses * run.accumulation * step.flops(run.piece, run.plan)


def counted_flops(step: PricedStep, shape: Shape, plan: Plan) -> int:
    """FLOPs of forward and backward pass, counted on the tuned model and the second models without numbers."""
    model, others = models_of(step, plan, torch.device("meta"))
    with MetaFlops() as counter:
        _output(step, model.eval(), others, shape).backward()  # type: ignore[no-untyped-call]
    return int(counter.total)


def models_of(step: PricedStep, plan: Plan, device: torch.device) -> tuple[Transformer, dict[str, Transformer]]:
    """The tuned model of a step with its first weights, and its second models by name."""
    model = build(step.architecture, plan, device=device)
    if step.method is not None:
        tune(model, step.method.tuning, 0)
    names = () if step.signal is None else step.signal.others
    return model, {
        name: build(second.architecture, plan, device=device).eval().requires_grad_(second.signal is not None)
        for name, second in zip(names, step.seconds, strict=True)
    }


def _output(step: PricedStep, model: Transformer, others: dict[str, Transformer], shape: Shape) -> Tensor:
    """A number of the model's outputs, or where there are second models the loss, to which these belong."""
    if not others or step.signal is None:
        inputs, options = without_numbers(step.architecture, shape)
        return model(*inputs, **options).float().sum()  # type: ignore[no-any-return]
    return step.signal.loss(model, shape, others)
