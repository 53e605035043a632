"""The end of a run: its summary, its picture and its result."""

from __future__ import annotations

import json
from pathlib import Path

from anyformer.costs import scaled
from anyformer.files import write_text
from anyformer.objectives.mixing import prompt_of
from anyformer.training import journal
from anyformer.training.chart import draw_losses
from anyformer.training.evaluate import Evaluated
from anyformer.training.instability import Past
from anyformer.training.memory_meter import MemoryMeter
from anyformer.training.metrics import Metrics
from anyformer.training.precision import Host
from anyformer.training.priced import step_of
from anyformer.training.starting_loss import before
from anyformer.training.summary import Waiting, summarise
from anyformer.training.trained import Trained
from anyformer.training.trainer import Trainer, windows_of

_ASKED = 3
"""Held-out questions or beginnings of texts that a model is given, before and after."""


def ended(
    directory: Path,
    trainer: Trainer,
    metrics: Metrics,
    *,
    machine: Host,
    memory: MemoryMeter,
    waiting: Waiting,
    past: Past,
    deadline: float | None,
) -> Trained:
    """Write the summary and the picture of a run whose last evaluation is made, and return its result."""
    run, model, step = trainer.run, trainer.finished(), metrics.rows[-1]["step"]
    if not trainer.ranks.first:
        return Trained(directory, model, trainer.corpus.tokenizer, step)
    rows, final = metrics.rows, metrics.evaluations[-1]
    validation = Evaluated(
        final["loss"], final["targets"], final["seen"], final["whole"], final["unit"], final["bits_per_byte"],
        final.get("metrics", {}), of_tokens=final["perplexity"] is not None,
    )  # fmt: skip
    baseline = trainer.baseline(validation.metrics) if run.evaluation.baseline else None
    parameters = sum(weight.count for weight in trainer.model.declared.values())
    title = f"{directory.resolve().name}: {scaled(parameters).rstrip()} parameters, {run.sizes}"
    draw_losses(rows, directory / journal.PICTURE, title=title, baseline=None if baseline is None else baseline[1])
    update = step_of(run, directory)
    summary = summarise(run, update, machine, rows, memory, waiting, past.lines(), trainer.ranks.size)
    write_text(directory / journal.SUMMARY, json.dumps(summary.data(), indent=2) + "\n")
    metrics.finished()
    started = before(trainer, windows_of(run, run.evaluation.final_tokens), deadline)
    openings = tuple(prompt_of(run.objective, trainer.corpus, number) for number in range(2 if started is None else _ASKED))
    return Trained(
        directory, model, trainer.corpus.tokenizer, step, 0, validation, baseline, summary,
        prompts=openings if run.sample is None else (run.sample, openings[0]), chat=run.objective.traits.chats, before=started,
        deadline=deadline, divided=run.plan.mesh.divided > 1,
    )  # fmt: skip
