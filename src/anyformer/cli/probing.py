"""`anyformer probe`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.aligned import aligned
from anyformer.cli.arguments import Json, Model, output_option, picture_option
from anyformer.cli.bars import bar
from anyformer.cli.options import grouped

if TYPE_CHECKING:
    from anyformer.evaluation import Subject
    from anyformer.evaluation.intervals import Interval
    from anyformer.inspecting import HeadPattern
    from anyformer.probing import DistanceBucket, Lens, Level, Probed, ProbeQuestion
    from anyformer.tasks import Task

EXAMPLES = """
anyformer probe runs/2026-01-01-120000
anyformer probe runs/2026-01-01-120000 --lengths 64,128,256 --out pictures
anyformer probe runs/2026-01-01-120000 --task parity --task '{kind="mqar",pairs=16}' --json
anyformer probe checkpoint --task induction --attention --lens --out pictures
"""
ALL = "all"
MOST_HEADS = 8
"""Heads that are printed; JSON has all of them."""


@dataclass(frozen=True)
class QuestionOptions:
    """Which tasks are asked, at which lengths, and how often."""

    task: Annotated[
        list[str] | None,
        typer.Option(
            help="Ask this task: its kind, a table, or all, for every one whose symbols the vocabulary has room for. Repeat it "
            "for more. By default the one that the run was trained on, or else induction.",
            metavar="KIND|TABLE|all",
        ),
    ] = None
    lengths: Annotated[
        str | None,
        typer.Option(
            help="Ask at these lengths, as in 64,128. By default half, once, twice and four times the trained one.",
            metavar="COUNTS",
        ),
    ] = None
    sequences: Annotated[int, typer.Option(help="Ask this many held-out sequences per length.", min=1, metavar="COUNT")] = 256


@dataclass(frozen=True)
class Looks:
    """What is looked at inside the model, and where pictures go."""

    attention: Annotated[
        bool,
        picture_option(
            "--attention",
            help="Print the induction score of every head; with --out draw the attention maps of one sequence.",
            metavar=None,
        ),
    ] = False
    lens: Annotated[
        bool,
        picture_option("--lens", help="Print the head's predictions after every layer; with --out draw them.", metavar=None),
    ] = False
    out: Annotated[
        Path | None, output_option(help="Write pictures and probe.json into this directory.", metavar="DIRECTORY")
    ] = None


@grouped
def run(
    model: Model,
    *,
    asked: QuestionOptions,
    looks: Looks,
    as_json: Json = False,
) -> None:
    """Test a trained model on generated tasks: accuracy by length, by position and by distance, beside chance.

    The sequences are held out by construction: the run has read none of them, whatever its seed. Lengths beyond the trained
    one test whether the learnt rule holds there. A task that the model was not trained on has any tokens of its
    vocabulary as symbols.
    """
    from anyformer.evaluation import open_subject
    from anyformer.files import check_directory
    from anyformer.inspecting import attention_paths
    from anyformer.probing import draw_probed, probe

    subject = open_subject(model)
    if looks.attention:
        attention_paths(subject.model)
    out = looks.out
    tasks, wanted = questions(subject, asked.task), None if asked.lengths is None else lengths_of(asked.lengths)
    if out is not None:
        check_directory(out)
        out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"model": str(model), "tasks": []}
    lines: list[str] = []
    for each in tasks:
        kind = each.data.task.kind
        steps = len(each.lengths(subject.model.architecture) if wanted is None else wanted)
        with bar(kind, steps) as done:
            found = probe(subject.model, each, wanted, asked.sequences, done)
        report["tasks"].append(found.facts)
        lines += ["", *page(found)]
        if out is not None and found.levels:
            draw_probed(found, out / f"{kind}.png", title=f"{subject.path.name}: {kind}")
        if looks.lens:
            _lens(subject, each, out, report["tasks"][-1], lines)
        if looks.attention and out is not None:
            _maps(subject, each, out)
    if looks.attention:
        _heads(subject, report, lines)
    if out is not None:
        (out / "probe.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        lines += ["", f"pictures and probe.json: {out}"]
    print(json.dumps(report, indent=2) if as_json else "\n".join(lines).lstrip("\n"))


def questions(subject: Subject, wanted: Sequence[str] | None) -> list[ProbeQuestion]:
    """What the options ask; refused before any work if the model cannot be asked it."""
    from anyformer.describe import UserError
    from anyformer.probing import fitting, question

    if not wanted:
        return [question(subject)]
    if ALL not in wanted:
        return [question(subject, task_in(text)) for text in wanted]
    tasks = fitting(subject)
    if not tasks:
        raise UserError(f"{subject.path}: no task has symbols few enough for its vocabulary; give one with fewer, --task TABLE")
    return [question(subject, each) for each in tasks]


def task_in(text: str) -> Task:
    """The task that an option names, by its kind or as a table."""
    from anyformer.describe import UserError, did_you_mean
    from anyformer.tasks import Task, named_task

    found = named_task(text)
    if found is None:
        raise UserError(f"--task: there is no task {text!r}{did_you_mean(text, sorted(Task.kinds))}")
    return found


def lengths_of(text: str) -> tuple[int, ...]:
    """`64,128` as numbers, ascending, without repetition."""
    from anyformer.describe import UserError

    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise UserError(f"--lengths {text!r}: give whole numbers with commas between, as in --lengths 64,128,256")
    return tuple(found)


def page(found: Probed) -> Iterator[str]:
    """The tables of a task."""
    trained = "not trained on it" if found.trained is None else f"trained up to length {found.trained:,}"
    yield f"{found.task.kind}: {trained}; {type(found.task).scored}"
    heads = ("length", "sequences", "accuracy", "95 % interval", "chance", "whole answers", "95 % interval", "chance")
    rows = [_row(level) for level in found.levels]
    if rows:
        yield from aligned([heads, *rows], (True,) * len(heads))
    for length, reason in found.refused.items():
        yield f"length {length:,} is left out: {reason}"
    if found.levels:
        last = found.levels[-1]
        yield from _buckets(f"position, at length {last.length:,}", last.by_position)
        yield from _buckets(f"distance, at length {last.length:,}", last.by_distance)


def _row(level: Level) -> tuple[str, ...]:
    shares = (level.targets, level.answers)
    figures = (said for share in shares for said in (f"{share.accuracy:.4f}", _ends(share.interval), f"{share.chance:.4f}"))
    return f"{level.length:,}", f"{level.sequences:,}", *figures


def _ends(interval: Interval) -> str:
    return f"{interval.low:.4f} to {interval.high:.4f}"


def _buckets(what: str, found: Sequence[DistanceBucket]) -> Iterator[str]:
    if len(found) < 2:
        return
    rows = [
        (
            str(each.first) if each.first == each.last else f"{each.first:,} to {each.last:,}",
            f"{each.share.asked:,}", f"{each.share.accuracy:.4f}", _ends(each.share.interval),
        )
        for each in found
    ]  # fmt: skip
    yield ""
    yield from aligned([(what, "targets", "accuracy", "95 % interval"), *rows], (False, True, True, True))


def _heads(subject: Subject, report: dict[str, Any], lines: list[str]) -> None:
    """The scores of every head, the greatest first."""
    from anyformer.cli.inspected_text import repeated, repeated_in_words
    from anyformer.inspecting import head_patterns

    tokens_BT = repeated(subject)
    if tokens_BT is None:
        report["heads"] = []
        return
    found = sorted(head_patterns(subject.model, tokens_BT), key=lambda head: -head.induction)
    report["heads"] = [asdict(head) for head in found]
    if not found:
        return
    lines += ["", f"induction and previous-token scores of heads, in {repeated_in_words(tokens_BT)}"]
    lines += aligned(
        [("attention", "head", "induction", "previous"), *map(_head, found[:MOST_HEADS])], (False, True, True, True)
    )
    if len(found) > MOST_HEADS:
        lines.append(f"and {len(found) - MOST_HEADS} more (--json)")


def _head(head: HeadPattern) -> tuple[str, ...]:
    return head.path, str(head.head), f"{head.induction:.3f}", f"{head.previous:.3f}"


def _maps(subject: Subject, asked: ProbeQuestion, out: Path) -> None:
    import torch

    from anyformer.inspecting import attention_paths, draw_patterns
    from anyformer.parts.call.reports import Auxiliary
    from anyformer.probing import objective_of

    model, examples = subject.model, _one(subject, asked, 1)
    paths = attention_paths(model)
    with torch.no_grad(), model.watch(*paths) as seen:
        objective_of(model.architecture).logits(model, examples, None, Auxiliary())
    maps = {path: seen[path] for path in paths}
    words = [asked.tokenizer.token(number) or "" for number in examples.tokens[0].tolist()]
    kind = asked.data.task.kind
    draw_patterns(maps, words, out / f"{kind}-attention.png", title=f"{subject.path.name}: attention on {kind}")


def _lens(subject: Subject, asked: ProbeQuestion, out: Path | None, report: dict[str, Any], lines: list[str]) -> None:
    from anyformer.probing import draw_lens, objective_of
    from anyformer.probing import lens as looked

    found: Lens = looked(subject.model, objective_of(subject.model.architecture), _one(subject, asked, 32))
    report["lens"] = {"accuracy": list(found.accuracy)}
    lines += ["", "logit lens: accuracy after every layer"]
    lines += aligned(
        [("layer", "accuracy"), *((str(number), f"{each:.4f}") for number, each in enumerate(found.accuracy))], (True, True)
    )
    kind = asked.data.task.kind
    if out is not None:
        draw_lens(found, out / f"{kind}-lens.png", title=f"{subject.path.name}: logit lens on {kind}")


def _one(subject: Subject, asked: ProbeQuestion, rows: int) -> Any:
    """Examples of the trained length, or of the shortest that is asked."""
    length = asked.trained or asked.lengths(subject.model.architecture)[0]
    return next(iter(asked.feed(subject.model.architecture, length, rows).once())).to(subject.model.device)
