"""`anyformer eval`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli import arguments
from anyformer.cli.arguments import Json, Model, picture_option

if TYPE_CHECKING:
    from anyformer.evaluation import Subject, Task

EXAMPLES = """
anyformer eval runs/2026-01-01-120000
anyformer eval runs/2026-01-01-120000 --data my_texts/ --draw figures.png
anyformer eval runs/2026-01-01-120000 --data my_texts/ --against runs/2026-01-02-120000
anyformer eval checkpoint --choices questions.jsonl
anyformer eval bert --fill "The [MASK] is blue."
anyformer eval checkpoint --tasks hellaswag --tasks my_task.yaml --limit 100
"""
data_option = partial(typer.Option, rich_help_panel="Data")
other_option = partial(typer.Option, rich_help_panel="Questions")
computing_option = partial(typer.Option, rich_help_panel="Computation")


def run(
    model: Model,
    data: Annotated[
        list[str] | None,
        data_option(
            help="Evaluate on all of this: a file, a directory, or a word for data that comes with Python. Repeat it for more. "
            "By default on what the run held out.",
            metavar="PATH",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        data_option(
            "--set",
            help="Change the value of the run at this path, as in --set length=512, --set data.isolate=true or --set "
            "objective.kind=masked. Repeat it for more changes.",
            metavar="PATH=VALUE",
        ),
    ] = None,
    by_document: Annotated[
        bool | None,
        data_option(
            "--by-document/--side-by-side",
            help="Read each document on its own, as lm-evaluation-harness does, or windows side by side over all text. By "
            "default documents of a model from elsewhere whose tokenizer puts something before a text, as <s>, else windows.",
            show_default=False,
        ),
    ] = None,
    stride: Annotated[
        int | None,
        data_option(
            help="Read each document in windows that begin so many tokens apart, so that every token has what the window "
            "before it held as context: transformers' perplexity of texts longer than a window.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        data_option(
            help="Compare with this model on the same rows, documents or questions, with an interval of the difference.",
            metavar="RUN|CHECKPOINT|DIRECTORY",
        ),
    ] = None,
    choices: Annotated[
        Path | None,
        other_option(
            help="Ask these questions, and take the likeliest choice: records with context (or question), choices, and "
            "answer, a number from 0 or a choice.",
            metavar="FILE.jsonl",
        ),
    ] = None,
    fill: Annotated[
        list[str] | None,
        other_option(help="Fill in each [MASK] of this text, with a masked model. Repeat it for more texts.", metavar="TEXT"),
    ] = None,
    retrieval: Annotated[
        Path | None,
        other_option(
            help="Find the positive of each text among those of all, by the similarity of embeddings: records with text and "
            "positive.",
            metavar="FILE.jsonl",
        ),
    ] = None,
    pool: Annotated[
        Literal["first", "mean", "last"] | None,
        other_option(
            help="Make a text's embedding of its positions so, where the head does not. By default as the run says, else mean.",
            metavar="first|mean|last",
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        other_option(
            help="Run this task of lm-evaluation-harness, by its name or as a file. Repeat it for more. Needs the extra eval.",
            metavar="NAME|FILE.yaml",
        ),
    ] = None,
    num_fewshot: Annotated[
        int | None,
        other_option(help="Put this many answered questions before each of a task's.", min=0, metavar="COUNT"),
    ] = None,
    apply_chat_template: Annotated[
        bool, other_option("--apply-chat-template", help="Write a task's questions by the model's chat template.")
    ] = False,
    fewshot_as_multiturn: Annotated[
        bool, other_option("--fewshot-as-multiturn", help="Give answered questions as turns of the chat.")
    ] = False,
    system_instruction: Annotated[
        str | None, other_option(help="Say this first, before a task's questions.", metavar="TEXT")
    ] = None,
    limit: Annotated[
        int | None, other_option(help="Ask only this many questions of each task.", min=1, metavar="COUNT")
    ] = None,
    draw: Annotated[
        Path | None,
        picture_option(help="Draw the loss by position and by length of document, and the calibration, into this file."),
    ] = None,
    precision: Annotated[
        Literal["stored", "fp32", "bf16"],
        computing_option(
            help="Compute with weights in this number format: as stored, fp32 or bf16.", metavar="stored|fp32|bf16"
        ),
    ] = "stored",
    device: Annotated[
        str | None, computing_option(help="Compute on this device. By default a GPU if there is one.", metavar="cpu|cuda")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what a trained model reaches: on data, on questions, on hidden words, on tasks.

    A model of a run is evaluated by its own objective, length and tokenizer, on the data given or on what the run held out;
    another one by the usual objective of its architecture. Of running text under next-token prediction there are loss,
    perplexity, bits per byte, accuracy and calibration, by the tokens read before and by the length of the document.

    With --against it says whether the model is better, worse, or whether nobody can tell: the interval holds the difference in
    95 of 100 cases, found by drawing the rows (or documents, or questions) again.
    """
    from anyformer.cli import evaluated
    from anyformer.describe import UserError
    from anyformer.evaluation import (
        Asking,
        answer,
        check_harness,
        open_subject,
        read_pairs,
        read_questions,
        retrieve,
        run_tasks,
        task_of,
    )
    from anyformer.evaluation import fill as filled
    from anyformer.pictures.style import check_picture

    asks_more = bool(choices or fill or retrieval or tasks)
    measures = bool(data) or not asks_more
    evaluated.check(
        model, against, draw=draw is not None, measures=measures, asks=choices is not None, limits=limit is not None,
        tasks=bool(tasks), changes=bool(changes), reading=by_document is not None or stride is not None,
    )  # fmt: skip
    asking = Asking(num_fewshot, apply_chat_template, fewshot_as_multiturn, system_instruction)
    if asking != Asking() and not tasks:
        raise UserError("answered questions, chat templates and what is said first are of tasks: give --tasks too")
    if fewshot_as_multiturn and not apply_chat_template:
        raise UserError("--fewshot-as-multiturn gives answered questions as turns of a chat: give --apply-chat-template too")
    if draw is not None:
        check_picture(draw)
    if tasks:
        check_harness()
    questions = None if choices is None else read_questions(choices)
    pairs = None if retrieval is None else read_pairs(retrieval)
    subject = open_subject(model, **_place(precision, device))
    other = None if against is None else open_subject(against, **_place(precision, device))
    report: dict[str, Any] = {"model": str(model)}
    lines: list[str] = []
    if measures:
        task = task_of(subject, tuple(data or ()), arguments.assigned(changes), by_document=by_document, stride=stride)
        _measured(task, other, draw, report, lines)
    if questions is not None:
        with evaluated.progress("choices", sum(len(each.choices) for each in questions)) as done:
            mine = answer(subject, questions, done)
            theirs = None if other is None else answer(other, questions)
        evaluated.add_choices(mine, theirs, report, lines)
    for text in fill or ():
        evaluated.add_filled(text, filled(subject, text), report, lines)
    if pairs is not None:
        with evaluated.progress("embedding", 2 * len(pairs)) as done:
            evaluated.add_retrieval(retrieve(subject, pairs, pool, done), report, lines)
    if tasks:
        evaluated.add_tasks(run_tasks(subject, tasks, limit=limit, asking=asking), report, lines)
    print(json.dumps(report, indent=2, ensure_ascii=False) if as_json else "\n".join(lines).lstrip("\n"))


def _place(precision: str, device: str | None) -> dict[str, Any]:
    import torch

    from anyformer.describe import UserError
    from anyformer.training.precision import default_device

    dtype = {"stored": None, "fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    if device is None:
        return {"device": default_device(), "dtype": dtype}
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # whose messages list what torch was built to know
        here = ["cpu", *([str(torch.accelerator.current_accelerator())] if torch.accelerator.is_available() else [])]
        named = "; a GPU is called cuda" if device.lower() != "cuda" else "; torch sees no CUDA device"
        raise UserError(f"--device {device}: this machine has {' and '.join(here)}{named}") from None
    return {"device": torch.device(device), "dtype": dtype}


def _measured(
    task: Task,
    other: Subject | None,
    draw: Path | None,
    report: dict[str, Any],
    lines: list[str],
) -> None:
    """The figures of data, and beside another model."""
    from anyformer.cli import evaluated
    from anyformer.describe import UserError
    from anyformer.evaluation import against, measure

    if draw is not None and not task.objective.traits.likelihood:
        raise UserError(f"--draw: there is a picture of next-token prediction, and the objective is {task.objective.kind!r}")
    total = task.feed.whole
    with evaluated.progress("evaluating", total) as done:
        found = measure(task, done)
    evaluated.add_measured(task, found, report, lines)
    if other is not None:
        with evaluated.progress(f"evaluating {other.path}", total) as done:
            evaluated.add_difference(against(task, found, other, done), other.path, report, lines)
    if draw is None or found.text is None:
        return
    from anyformer.evaluation.chart import draw_figures

    draw_figures(found.text, draw, title=f"{task.subject.path.name}: {', '.join(task.run.data.places)}")
    report["picture"] = str(draw)
    lines += ["", f"picture: {draw}"]
