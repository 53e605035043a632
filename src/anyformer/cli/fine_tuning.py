"""`anyformer plan NAME --finetune`: which ways of fine-tuning fit on one accelerator, the answer first."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anyformer.cli.answering import Answer
from anyformer.cli.arguments import unchanged
from anyformer.cli.pages import Figures, Item, Verbatim
from anyformer.costs.figures import NOTHING, Figure, count, scaled, size
from anyformer.costs.rows import FigureRow, PageLine, Section

if TYPE_CHECKING:
    from anyformer.costs.fine_tuning import Method
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.tuned import PricedMethod

BASIS = (
    "Trained weights and their gradients are in fp32 unless stated otherwise; products are in {number}. Every way with the "
    "least recomputation that fits. Every matrix of the layers has an adapter. Bytes that norms, matrices and adapters save "
    "for the backward pass are exact; experts, recurrences and convolutions are counted as if they were trained. "
    "`anyformer train` holds frozen weights in the format of `tuning.base`, and those that learn in fp32."
)
PURPOSES = ("weights", "gradients", "optimiser", "copies", "activations", "logits", "temporaries")


def answered(
    made: dict[str, Architecture], on: Hardware, batch: int, length: int, rank: int, plan: Plan, *, json: bool
) -> Answer:
    """Which ways of fine-tuning fit; yes if every architecture has one."""
    from anyformer.planning.tuned import choices

    priced = {
        name: tuple(
            choices(each, hardware=on, batch=batch, length=length, rank=rank, plan=plan, own=_method_of_run(unchanged(name)))
        )
        for name, each in made.items()
    }
    code = int(not all(any(way.fits for way in each) for each in priced.values()))
    if json:
        return Answer([Verbatim(jsons.dumps([data(name, each, on, length) for name, each in priced.items()], indent=2))], code)
    number = on.resolved(plan).number
    return Answer([item for name, each in priced.items() for item in page(name, each, on, number, batch, length)], code)


def _method_of_run(name: str) -> Iterator[Method]:
    """The tuning and the optimiser of a run, if the name is that of a run."""
    from anyformer.cli.show import find
    from anyformer.costs.fine_tuning import Method
    from anyformer.resolving import is_run
    from anyformer.training import Run

    if is_run(name):
        run = find(name, {})
        assert isinstance(run, Run)
        yield Method("this run", run.tuning, run.optimiser, averaged=run.average is not None)


def page(name: str, choices: Sequence[PricedMethod], on: Hardware, number: str, batch: int, length: int) -> Iterator[Item]:
    """Yes or no for every way, then memory by purpose and speed."""
    yield PageLine(
        f"Can {name} be fine-tuned on one {on.title}, batch {batch:,} x {length:,} tokens in {number}? "
        f"({scaled(on.usable_memory)}B of its memory are free for tensors)",
        strong=True,
    )
    wide = max(len(each.name) for each in choices)
    for each in choices:
        yield PageLine(f"  {each.name + ':':<{wide + 1}} {_answer(each, on)}", strong=each.fits)
    yield PageLine("")
    yield Figures((_memory(choices), _speed(choices)))
    yield PageLine("")
    yield PageLine(BASIS.format(number=number))


def _answer(choice: PricedMethod, on: Hardware) -> str:
    total, fixed = f"{scaled(choice.memory.total)}B", f"{scaled(choice.fixed)}B"
    if choice.fits:
        more = choice.largest_recomputed > choice.largest
        full = f" ({choice.largest_recomputed:,} with full recomputation)" if more else ""
        return f"yes, {total}; up to batch {choice.largest:,}{full}"
    if choice.fixed > on.usable_memory:
        what = "weights, gradients and optimiser state alone"
        return f"no, {total} for {what}" if total == fixed else f"no, {total}; {what} take {fixed}"
    return f"no, {total}" + (f"; batch {choice.largest:,} fits" if choice.largest else "")


def _memory(choices: Sequence[PricedMethod]) -> Section:
    """Bytes by purpose at the peak of a step."""
    held = [what for what in PURPOSES if any(getattr(each.memory, what) for each in choices)]
    rows = [
        FigureRow(each.name, (*(_some(getattr(each.memory, what)) for what in held), size(each.memory.total)))
        for each in choices
    ]
    return Section("Memory at its peak", (*held, "together"), tuple(rows))


def _speed(choices: Sequence[PricedMethod]) -> Section:
    rows = [
        FigureRow(
            each.name,
            (
                count(each.learning),
                Figure(each.checkpointing),
                count(each.tokens_per_second) if each.fits else NOTHING,
                count(each.largest) if each.largest else NOTHING,
                count(each.largest_recomputed) if each.largest_recomputed else NOTHING,
            ),
        )
        for each in choices
    ]
    return Section(
        "Training", ("trained parameters", "recomputed", "tokens/s", "largest batch", "with full recomputation"), tuple(rows)
    )


def _some(number: int) -> Figure:
    return size(number) if number else NOTHING


def data(name: str, choices: Sequence[PricedMethod], on: Hardware, length: int) -> dict[str, Any]:
    """Plain data, for JSON; sizes are bytes."""
    return {
        "name": name,
        "hardware": on.name,
        "usable_memory": on.usable_memory,
        "length": length,
        "methods": [
            {
                "name": each.name,
                "fits": each.fits,
                "batch": each.batch,
                "checkpointing": each.checkpointing,
                "learning": each.learning,
                "weights_gradients_and_optimiser": each.fixed,
                "memory": {what: getattr(each.memory, what) for what in PURPOSES} | {"total": each.memory.total},
                "largest_batch": each.largest,
                "largest_batch_computed_again": each.largest_recomputed,
                "tokens_per_second": each.tokens_per_second if each.fits else None,
            }
            for each in choices
        ],
    }
