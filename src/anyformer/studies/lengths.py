"""Trained models at lengths that they were not trained at: does what they learnt hold there?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from anyformer.describe import read_json
from anyformer.evaluation import EvaluationTask, open_subject
from anyformer.evaluation.subject import PLAN
from anyformer.files import write_text
from anyformer.training import Run, load_run
from anyformer.training.evaluate import evaluate
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import RUN
from anyformer.training.precision import default_device
from anyformer.training.trainer import windows_of

LENGTHS = "lengths.json"
Numbers = Mapping[int, Mapping[str, float]]
"""The held-out loss and the objective's metrics by length."""


def at_length(run: Run, length: int) -> Run:
    """The run with rows of another length and about as many tokens in a batch; a generated task is asked at exactly this
    length. `ValueError` where the model or the data has none of it."""
    batch = max(1, run.batch * run.length // length)
    return run.but(length=length, batch=batch, accumulation=1, data=run.data.of_any_length)


def ask(directory: Path, lengths: Sequence[int]) -> Numbers:
    """Evaluate the trained model of a run's directory at all lengths, on as many held-out tokens as at the end of its training,
    and write the numbers there."""
    subject, run = open_subject(directory, device=default_device()), load_run(directory / RUN)
    found = {}
    for length in lengths:
        longer = at_length(run, length)
        task = EvaluationTask(subject, longer, corpus_of(longer))
        most = windows_of(longer, longer.evaluation.final_tokens)
        result = evaluate(
            subject.model, task.objective, task.feed, PLAN, most=most, partners=task.partners, names=task.corpus.names
        )  # fmt: skip
        found[length] = {"loss": result.loss, **result.metrics}
    write_text(directory / LENGTHS, json.dumps(found, indent=1) + "\n")
    return found


def left_to_ask(directory: Path, lengths: Sequence[int]) -> bool:
    """Whether a length is missing in what `ask` wrote."""
    return not set(lengths) <= set(asked(directory))


def asked(directory: Path) -> Numbers:
    """What `ask` wrote; nothing where it wrote nothing, or not all of it."""
    try:
        found = read_json(directory / LENGTHS)
        return {int(length): numbers for length, numbers in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
