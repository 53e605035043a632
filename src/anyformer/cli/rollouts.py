"""`anyformer plan A --rl`: what bounds a step of reinforcement learning, and how many accelerators for which side."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyformer.cli.answering import Answer
from anyformer.cli.pages import BlockTable, Item, Paragraph, Verbatim
from anyformer.cli.queue_options import ArrivalOptions
from anyformer.cli.rollout_options import RolloutOptions
from anyformer.costs.figures import clock
from anyformer.costs.rows import PageLine
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.reinforcement import RolloutSearch, RolloutStep

GPUS = 8


def answered(
    made: Mapping[str, Architecture],
    asked: RolloutOptions,
    texts: ArrivalOptions,
    on: Hardware,
    accelerators: int | None,
    plan: Plan,
    *,
    json: bool,
) -> Answer:
    """The fastest way to divide the accelerators, and the others."""
    if len(made) > 1:
        raise UserError(f"--rl is planned for one architecture, got {', '.join(made)}: name one")
    ((name, only),) = made.items()
    search = _search(name, only, asked, texts, on, accelerators or GPUS, plan)
    steps = search.steps()
    if json:
        return Answer([Verbatim(jsons.dumps([_data(step) for step in steps], indent=2))])
    return Answer(list(_page(name, search, steps)))


def _search(
    name: str,
    made: Architecture,
    asked: RolloutOptions,
    texts: ArrivalOptions,
    on: Hardware,
    accelerators: int,
    plan: Plan,
) -> RolloutSearch:
    from anyformer.cli.arguments import architectures
    from anyformer.costs.page import longest
    from anyformer.planning.reinforcement import RolloutBatch, RolloutSearch
    from anyformer.planning.serving import check_generates

    try:
        check_generates(made)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    reference: Architecture | None = made
    if asked.reference is not None:
        reference = None if asked.reference == "none" else architectures([asked.reference], None)[asked.reference]
    batch = RolloutBatch(asked.prompts, asked.answers, *texts.lengths(longest(made)), asked.passes, texts.seed)
    return RolloutSearch(made, batch, on, accelerators, reference, texts.rules, plan)


def _page(name: str, search: RolloutSearch, steps: list[RolloutStep]) -> Iterator[Item]:
    best, title = steps[0], search.on.title
    if best.apart:
        ways = f"{best.answering:,} answer and {best.training:,} learn"
    else:
        ways = f"all {best.accelerators:,} answer, score and learn in turn"
    yield PageLine(
        f"{name} on {best.accelerators:,} {title}: {clock(best.seconds)} a step, bound by {best.bound}; {ways}", strong=True
    )
    yield PageLine(
        f"  {search.batch.prompts:,} prompts x {search.batch.answers:,} answers, {best.tokens:,} tokens; "
        f"{best.tokens_per_second:,.0f} tokens/s"
    )
    yield PageLine("")
    heads = (
        "answer",
        "learn",
        "a step",
        "answers",
        "scores",
        "updates",
        "weights sent",
        "waits",
        "engine",
        "layout of updates",
    )
    rows = tuple(
        (
            f"{step.answering:,}" if step.apart else "all",
            f"{step.training:,}" if step.apart else "all",
            *(clock(each) for each in (step.seconds, step.rollout, step.reference, step.learning, step.sync)),
            f"{step.idle:.0%}",
            str(step.engine),
            str(step.update.layout),
        )
        for step in steps
    )
    yield BlockTable(heads, rows, heads[:8])
    yield PageLine("")
    yield Paragraph(
        "All answers begin at once, and each engine gets its share in turn; the longest one ends the answering. Where sides "
        "stand apart, those that answer are a step ahead. Updates read texts in rows of their mean length. Left out: rewards, "
        "the host, and loading weights into an engine once they are there."
    )


def _data(step: RolloutStep) -> dict[str, Any]:
    """Plain data, for JSON: seconds."""
    names = ("answering", "training", "seconds", "rollout", "reference", "learning", "sync", "bound", "idle", "tokens")
    return {
        **{each: getattr(step, each) for each in names},
        "engine": asdict(step.engine),
        "layout": asdict(step.update.layout),
    }
