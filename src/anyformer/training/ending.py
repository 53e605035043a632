"""The end of a run: its summary, its picture and its result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anyformer.costs import scaled
from anyformer.files import write_text
from anyformer.objectives.mixing import prompt_of
from anyformer.training import budget as budgets
from anyformer.training import journal
from anyformer.training.chart import draw_losses
from anyformer.training.evaluate import Evaluated
from anyformer.training.priced import step_of
from anyformer.training.summary import Waiting, summarise
from anyformer.training.trained import Trained

if TYPE_CHECKING:
    from anyformer.training.session import Session


def ended(session: Session) -> Trained:
    """Write the summary and the picture, and return the result."""
    run, trainer, model = session.run, session.trainer, session.trainer.finished()
    if not session.ranks.first:
        return Trained(session.directory, model, trainer.corpus.tokenizer, session.step)
    session.stop.doing = "drawing the picture and summing up; all updates are saved"
    rows, final = session.metrics.rows, session.metrics.evaluations[-1]
    validation = Evaluated(
        final["loss"], final["targets"], final["seen"], final["whole"], final["unit"], final["bits_per_byte"],
        final.get("metrics", {}), of_tokens=final["perplexity"] is not None,
    )  # fmt: skip
    baseline = trainer.baseline() if run.evaluation.baseline else None
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    title = f"{session.directory.resolve().name}: {scaled(parameters).rstrip()} parameters, {run.sizes}"
    draw_losses(rows, session.directory / "loss.png", title=title, baseline=None if baseline is None else baseline[1])
    waiting = Waiting(session.saver.waited, budgets.clock() - session.began, session.saver.saves)
    summary = summarise(
        run,
        step_of(run, session.directory),
        session.machine,
        rows,
        session.memory,
        waiting,
        session.past.lines(),
        session.ranks.size,
    )
    write_text(session.directory / journal.SUMMARY, json.dumps(summary.data(), indent=2) + "\n")
    openings = tuple(prompt_of(run.objective, trainer.corpus, number) for number in range(2))
    return Trained(
        session.directory, model, trainer.corpus.tokenizer, session.step, 0, validation, baseline, summary,
        prompts=openings if run.sample is None else (run.sample, openings[0]), chat=run.objective.chats,
        deadline=None if session.budget is None else session.budget.began + session.budget.seconds,
    )  # fmt: skip
