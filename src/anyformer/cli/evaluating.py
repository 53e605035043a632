"""`anyformer eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from anyformer.cli.arguments import Json, Model, assigned, picture_option
from anyformer.cli.evaluation_options import ComputingOptions, DataOptions, Questions, TaskOptions, check
from anyformer.cli.options import grouped
from anyformer.cli.processes import ProcessOptions, first_speaks
from anyformer.cli.terminal import tell
from anyformer.mesh import started

if TYPE_CHECKING:
    from anyformer.evaluation import ChoiceQuestion, EvaluationTask, Subject

EXAMPLES = """
anyformer eval runs/2026-01-01-120000
anyformer eval runs/2026-01-01-120000 --data my_texts/ --draw figures.png
anyformer eval runs/2026-01-01-120000 --data my_texts/ --against runs/2026-01-02-120000
anyformer eval checkpoint --choices questions.jsonl
anyformer eval bert --fill "The [MASK] is blue."
anyformer eval checkpoint --tasks hellaswag --tasks my_task.yaml --limit 100
"""


@grouped
def run(
    model: Model,
    *,
    data: DataOptions,
    questions: Questions,
    harness: TaskOptions,
    draw: Annotated[
        Path | None,
        picture_option(help="Draw the loss by position and by length of document, and the calibration, into this file."),
    ] = None,
    computing: ComputingOptions,
    several: ProcessOptions,
    as_json: Json = False,
) -> None:
    """Evaluate a trained model: on data, on questions, on hidden words, on tasks.

    A model of a run is evaluated by its own objective, length and tokenizer, on the data given or on what the run held out;
    another one by the usual objective of its architecture. Running text under next-token prediction gives loss,
    perplexity, bits per byte, accuracy and calibration, by the tokens read before and by the length of the document.

    With --against the answer is better, worse, or cannot tell: the interval holds the difference in
    95 of 100 cases, found by drawing the rows (or documents, or questions) again.

    `torchrun --nproc-per-node N -m anyformer eval ...` divides the models among N processes.
    """
    with first_speaks():
        report, lines = _evaluated(model, data, questions, harness, draw, computing, several)
        print(json.dumps(report, indent=2, ensure_ascii=False) if as_json else "\n".join(lines).lstrip("\n"))


def _evaluated(
    model: Path,
    data: DataOptions,
    questions: Questions,
    harness: TaskOptions,
    draw: Path | None,
    computing: ComputingOptions,
    several: ProcessOptions,
) -> tuple[dict[str, Any], list[str]]:
    """All that was asked, as JSON and in lines."""
    from anyformer.cli import evaluation_page
    from anyformer.evaluation import check_harness, open_subject, run_tasks, task_of
    from anyformer.pictures.style import check_picture

    measures = bool(data.data) or not (questions.any or harness.tasks)
    check(model, data, questions, harness, draws=draw is not None, measures=measures)
    asking = harness.asking()
    if draw is not None:
        check_picture(draw)
    if harness.tasks:
        check_harness()
    asked, pairs = questions.read()
    settings = computing.settings()
    report: dict[str, Any] = {"model": str(model)}
    lines: list[str] = []
    with several.together(settings["device"]) as them:
        division = {**settings, "divide": them.divide, "among": them.checkers}
        how = {**division, "engine": computing.engine, "beside": _beside(measures, questions), "said": tell}
        subject = open_subject(model, **how)
        other = None if data.against is None else open_subject(data.against, **how)
        if measures:
            paths, changes, alone = tuple(data.data or ()), assigned(data.changes), data.by_document
            task = them.in_turn(lambda: task_of(subject, paths, changes, by_document=alone, stride=data.stride))
            _measured(task, other, draw if them.first else None, report, lines)
        _ask(subject, other, questions, asked, pairs, report, lines)
        if harness.tasks:
            evaluation_page.add_tasks(run_tasks(subject, harness.tasks, limit=harness.limit, asking=asking), report, lines)
    return report, lines


def _beside(measures: bool, questions: Questions) -> tuple[str, ...]:
    """What is asked beyond the likelihood of texts, and texts that go on."""
    asked = {
        "the loss on data": measures, "hidden words": bool(questions.fill), "embeddings": questions.retrieval is not None,
        "several processes": started() > 1,
    }  # fmt: skip
    return tuple(word for word, is_asked in asked.items() if is_asked)


def _ask(
    subject: Subject,
    other: Subject | None,
    questions: Questions,
    asked: list[ChoiceQuestion] | None,
    pairs: list[tuple[str, str]] | None,
    report: dict[str, Any],
    lines: list[str],
) -> None:
    """What a model says to questions: those with choices beside another model."""
    from anyformer.cli import evaluation_page
    from anyformer.evaluation import answer, retrieve
    from anyformer.evaluation import fill as filled

    if asked is not None:
        with evaluation_page.progress("choices", sum(len(each.choices) for each in asked)) as done:
            mine = answer(subject, asked, done)
            theirs = None if other is None else answer(other, asked)
        evaluation_page.add_choices(mine, theirs, report, lines)
    for text in questions.fill or ():
        evaluation_page.add_filled(text, filled(subject, text), report, lines)
    if pairs is not None:
        with evaluation_page.progress("embedding", 2 * len(pairs)) as done:
            evaluation_page.add_retrieval(retrieve(subject, pairs, questions.pool, done), report, lines)


def _measured(
    task: EvaluationTask,
    other: Subject | None,
    draw: Path | None,
    report: dict[str, Any],
    lines: list[str],
) -> None:
    """The figures of data, and beside another model."""
    from anyformer.cli import evaluation_page
    from anyformer.describe import UserError
    from anyformer.evaluation import against, measure

    if draw is not None and not task.objective.traits.likelihood:
        raise UserError(f"--draw: there is a picture of next-token prediction, and the objective is {task.objective.kind!r}")
    total = task.feed.whole
    with evaluation_page.progress("evaluating", total) as done:
        found = measure(task, done)
    evaluation_page.add_measured(task, found, report, lines)
    if other is not None:
        with evaluation_page.progress(f"evaluating {other.path}", total) as done:
            evaluation_page.add_difference(against(task, found, other, done), other.path, report, lines)
    if draw is None or found.text is None:
        return
    from anyformer.evaluation.chart import draw_figures

    draw_figures(found.text, draw, title=f"{task.subject.path.name}: {', '.join(task.run.data.places)}")
    report["picture"] = str(draw)
    lines += ["", f"picture: {draw}"]
