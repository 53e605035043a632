"""`transform`: a model of another architecture, from the weights of one that is there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from anyformer import checkpoint
from anyformer.model import Architecture
from anyformer.model.initialise import on_meta
from anyformer.model.transformer import Transformer
from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.matched import places
from anyformer.transforming.operation import MadeWeight, TransformStep
from anyformer.transforming.planned import Transformation, planned
from anyformer.transforming.report import TransformReport, reported

Performed = Mapping[str, tuple[TransformStep, MadeWeight]]
"""Each new weight by name, with the step that made it."""


def transform(
    model: Transformer, architecture: Architecture, choices: TransformChoices | None = None
) -> tuple[Transformer, TransformReport]:
    """A model of `architecture` from the weights of `model`, in evaluation mode, and what became of every weight.

    Weights stay in their number format, on the CPU or wherever they are; the model given is left as it is. Raises
    `TransformError`, before any work, for a change that no operation carries weights over.
    """
    return performed(model, planned(model.architecture, architecture, choices))


def performed(
    model: Transformer, transformation: Transformation, moments: Mapping[str, Tensor] | None = None
) -> tuple[Transformer, TransformReport]:
    """The new model and its report, by steps that were planned for the model's architecture. `moments`: see `moments_of`."""
    old = {name: parameter.detach() for name, parameter in model.named_parameters()}
    made = made_by(transformation, old, moments or {})
    with on_meta():
        new = Transformer(transformation.new, model.plan)
    # A copy each: no weight of the new model shares its numbers with another, or with the old model.
    values = {name: each.value.clone(memory_format=torch.contiguous_format) for name, (_, each) in made.items()}
    checkpoint.fill(new, values, Path("the new model"), model.device)
    report = reported(transformation, made, old)
    return new.eval(), replace(report, logits_error=logits_error(model, new))


def made_by(transformation: Transformation, old: Mapping[str, Tensor], moments: Mapping[str, Tensor]) -> Performed:
    """The new weights from the old ones, in fp64 where they are computed and in the old format when done."""
    declared = {name: place.weight for name, place in places(transformation.new).items()}
    rules = transformation.new.initialisation.of_depth(transformation.new.output_stack.depth)
    like = next(iter(old.values()))

    def fresh(name: str) -> Callable[[], Tensor]:
        return lambda: rules.fill(declared[name], name, transformation.choices.seed).to(like)

    made: dict[str, tuple[TransformStep, MadeWeight]] = {}
    for step in transformation.steps:
        given = [old[name] for name in step.sources] + [moments[name] for name in (step.inputs,) if name in moments]
        results = step.operation(given, [fresh(name) for name in step.targets])
        made |= {name: (step, each) for name, each in zip(step.targets, results, strict=True)}
    return made


def logits_error(old: Transformer, new: Transformer, rows: int = 2, length: int = 32) -> float | None:
    """max |new - old| / max |old| of the outputs on random tokens; None if the two do not read and write the same things.

    Only logits that both have are compared, on tokens that both know.
    """
    symbols = [(model.architecture.embedding.symbols, model.architecture.output_embedding.symbols) for model in (old, new)]
    outputs = [None if model.architecture.head is None else model.architecture.head.outputs for model in (old, new)]
    shapes = [(model.architecture.two_inputs, model.architecture.latents is None) for model in (old, new)]
    if None in symbols[0] + symbols[1] or outputs[0] != outputs[1] or shapes[0] != shapes[1]:
        return None
    if (old.architecture.head is None) != (new.architecture.head is None):
        return None
    tables = [stack.max_length for model in (old, new) for stack in model.architecture.stacks.values()]
    length = min(length, *(table or length for table in tables))
    generator = torch.Generator().manual_seed(0)
    known = [min(filter(None, pair)) for pair in zip(*symbols, strict=True)]
    given = [torch.randint(0, count, (rows, length), generator=generator).to(old.device) for count in known]
    inputs = given if old.architecture.two_inputs else given[:1]
    was_training = old.training
    with torch.no_grad():
        here, there = old.eval()(*inputs).float(), new.eval()(*inputs).float()
    old.train(was_training)
    count = min(here.shape[-1], there.shape[-1])
    here, there = here[..., :count], there[..., :count]
    size = here.abs().max().clamp(min=torch.finfo(here.dtype).tiny)
    return float((there - here).abs().max() / size) if here.shape == there.shape else None


def recovery(teacher: Path, student: Path, data: str | None) -> str:
    """One command that trains the checkpoint `student` to give what `teacher` gives, on `data`."""
    settings = (f"start_from={student}", "objective.kind=distillation", f"objective.teacher={teacher}", "steps=200")
    words = ["anyformer", "train", str(student), "--data", data or "TEXT"]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])
