"""What `anyformer eval` found, as lines and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.cli.aligned import aligned
from anyformer.cli.bars import bar as progress
from anyformer.cli.text_on_screen import safe

if TYPE_CHECKING:
    from anyformer.evaluation import (
        ChoiceResults,
        ContextBucket,
        EvaluationResult,
        EvaluationTask,
        Filled,
        Interval,
        PairedDifference,
        Result,
        Retrieval,
    )

__all__ = [
    "add_choices",
    "add_difference",
    "add_filled",
    "add_measured",
    "add_retrieval",
    "add_tasks",
    "progress",
]
Report = dict[str, Any]


def add_measured(task: EvaluationTask, found: EvaluationResult, report: Report, lines: list[str]) -> None:
    """The loss and metrics, and of running text the tables."""
    result, text = found.evaluated, found.text
    table: Report = {
        "objective": task.objective.kind, "paths": list(task.run.data.places), "held_out": task.run.data.holds_out,
        "length": task.run.length, "by_document": task.reading.by_document, "stride": task.reading.stride,
        "loss": result.loss, "targets": result.count, "read": result.seen, "unit": result.unit,
        "metrics": dict(result.metrics),
    }  # fmt: skip
    lines.append(
        f"{task.objective.kind} over {result.seen:,} {result.unit}, {result.count:,} targets, length {task.run.length:,}"
        f"{task.reading.words}"
    )
    rows = [("loss", f"{result.loss:.4f}")]
    if task.objective.traits.likelihood:
        table |= {"perplexity": result.perplexity, "bits_per_byte": result.bits_per_byte}
        rows.append(("perplexity", f"{result.perplexity:.2f}"))
        rows += [] if result.bits_per_byte is None else [("bits per byte", f"{result.bits_per_byte:.4f}")]
    rows += [(name.replace("_", " "), f"{value:.4f}") for name, value in result.metrics.items()]
    lines += aligned(rows, (False, True))
    if text is not None:
        table["by_position"] = list(map(_bucket, text.by_position))
        table["by_document"] = list(map(_bucket, text.by_document))
        table["calibration"] = [_plain(asdict(each)) for each in text.calibration]
        lines += _buckets("tokens read before", text.by_position)
        lines += _buckets("tokens of the document", text.by_document)
    report["data"] = _plain(table)


def add_difference(found: PairedDifference, other: Path, report: Report, lines: list[str]) -> None:
    """Which of two models is better on the data."""
    report["against"] = {"model": str(other), **_difference(found)}
    lines += ["", f"against {other}: the loss differs by {_signed(found.interval)} over {found.units:,} {found.unit}"]
    lines.append(_verdict(found))


def add_choices(mine: ChoiceResults, theirs: ChoiceResults | None, report: Report, lines: list[str]) -> None:
    """The accuracy of a model's choices, and beside another model's."""
    from anyformer.evaluation import better

    accuracy, by_character = mine.accuracy, mine.accuracy_by_character
    report["choices"] = {
        "questions": len(mine.answered), "accuracy": asdict(accuracy), "accuracy_by_character": asdict(by_character),
        "chance": mine.chance,
        "answers": [
            {"chosen": each.chosen, "right": each.question.answer, "log_likelihoods": list(each.log_likelihoods)}
            for each in mine.answered
        ],
    }  # fmt: skip
    lines += ["", f"choices: {len(mine.answered):,} questions, {mine.chance:.1%} by chance"]
    lines += aligned(
        [("accuracy", _share(accuracy)), ("by likelihood per character", _share(by_character))], (False, False)
    )  # fmt: skip
    if theirs is not None:
        found = better(mine, theirs)
        report["choices"]["against"] = _difference(found)
        lines += [f"against the other's {theirs.accuracy.value:.1%}: {_signed(found.interval)}", _verdict(found)]


def add_filled(text: str, found: Sequence[Filled], report: Report, lines: list[str]) -> None:
    """The likeliest tokens at hidden places."""
    places = [
        [{"token": number, "text": word, "probability": chance} for number, word, chance in each.tokens] for each in found
    ]
    report.setdefault("filled", []).append({"text": text, "places": places})
    lines += ["", safe(text)]
    for number, each in enumerate(found, start=1):
        lines += [f"  [MASK] {number}"] if len(found) > 1 else []
        rows = [(f"  {chance:6.1%}", repr(safe(word))) for _, word, chance in each.tokens]
        lines += aligned(rows, (True, False))


def add_retrieval(found: Retrieval, report: Report, lines: list[str]) -> None:
    """How often the counterpart of a text is found."""
    from anyformer.evaluation.retrieval import AT

    recalls = {most: found.recall(most) for most in AT}
    report["retrieval"] = {
        "texts": len(found.ranks), "candidates": found.candidates, "mrr": found.mean_reciprocal_rank,
        **{f"recall_at_{most}": asdict(each) for most, each in recalls.items()},
    }  # fmt: skip
    lines += ["", f"retrieval: {len(found.ranks):,} texts among {found.candidates:,} candidates"]
    rows = [(f"recall@{most}", _share(each)) for most, each in recalls.items()]
    lines += aligned([*rows, ("MRR", f"{found.mean_reciprocal_rank:.4f}")], (False, False))


def add_tasks(found: Sequence[Result], report: Report, lines: list[str]) -> None:
    """The figures of the harness's tasks."""
    report["tasks"] = [asdict(each) for each in found]
    rows = [
        (each.task, each.metric, f"{each.value:.4f}", "" if each.error is None else f"± {each.error:.4f}") for each in found
    ]
    lines += ["", *aligned([("task", "metric", "value", ""), *rows], (False, False, True, False))]


def _buckets(what: str, buckets: Sequence[ContextBucket]) -> list[str]:
    if not buckets:
        return []
    heads = (what, "targets", "loss", "accuracy", "top 5")
    rows = [
        (
            str(each.first) if each.first == each.last else f"{each.first:,} to {each.last:,}",
            f"{each.sums.count:,}", f"{each.sums.loss:.4f}", f"{each.sums.accuracy:.4f}", f"{each.sums.top_5_accuracy:.4f}",
        )
        for each in buckets
    ]  # fmt: skip
    return ["", *aligned([heads, *rows], (False, True, True, True, True))]


def _bucket(bucket: ContextBucket) -> Report:
    sums = bucket.sums
    return {
        "first": bucket.first, "last": bucket.last, **asdict(sums), "loss": sums.loss, "accuracy": sums.accuracy,
        "top_5_accuracy": sums.top_5_accuracy,
    }  # fmt: skip


def _difference(found: PairedDifference) -> Report:
    return {**asdict(found.interval), "units": found.units, "unit": found.unit, "verdict": found.verdict}


def _signed(interval: Interval) -> str:
    return f"{interval.value:+.4f} (95 % interval {interval.low:+.4f} to {interval.high:+.4f})"


def _verdict(found: PairedDifference) -> str:
    from anyformer.evaluation.intervals import FEWEST

    if found.units < FEWEST:
        return f"cannot tell: {found.units} {found.unit} are too few, and at least {FEWEST} are needed"
    return {"better": "better", "worse": "worse", "cannot tell": "cannot tell: the interval holds 0"}[found.verdict]


def _share(interval: Interval) -> str:
    return f"{interval.value:.1%} (95 % interval {interval.low:.1%} to {interval.high:.1%})"


def _plain(table: Report) -> Report:
    """JSON has no NaN."""
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in table.items()}
