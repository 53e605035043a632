"""The page of `anyformer plan` for training: the answer, the fastest layouts that fit, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyformer.cli.aligned import Column
from anyformer.cli.pages import Item, PageTable, Paragraph
from anyformer.costs.rows import PageLine

if TYPE_CHECKING:
    from anyformer.planning.planner import Candidate, Planned


def page(what: str, planned: Planned, below: Sequence[str]) -> Iterator[Item]:
    """The answer and what stands below it, the fastest layouts, and why others are not possible."""
    yield Paragraph(answer(what, planned))
    yield from (Paragraph(line, "  ") for line in below)
    if planned.fastest:
        yield from (PageLine(""), _table(planned.fastest), PageLine(""))
        yield Paragraph(_memory(planned.fastest[0]))
        yield Paragraph(_assumed(planned))
    for candidate in planned.too_large:
        yield Paragraph(f"Does not fit: {candidate.layout}: {candidate.why_not}")
    for reason in planned.impossible:
        yield Paragraph(f"Not possible: {reason}")


def _table(fastest: Sequence[Candidate]) -> PageTable:
    heads = tuple(head for head, _ in COLUMNS)
    return PageTable(heads, tuple(tuple(cell(each) for _, cell in COLUMNS) for each in fastest), NUMBERS)


def answer(what: str, planned: Planned) -> str:
    """Whether the training fits, how it is laid out, and how fast it is, in a sentence."""
    on = planned.machine.hardware
    question = f"{what} on {planned.ranks:,} {on.name}, {planned.sequences:,} x {planned.length:,} tokens per step"
    tried = f"({planned.tried:,} layouts tried)"
    if not planned.fastest:
        return f"No: {question}: nothing fits {tried}."
    best = planned.fastest[0]
    days = 1e12 / best.tokens_per_second / 86_400
    return (
        f"Yes: {question}: {best.layout}, {best.layout.checkpointing} recomputed, {best.time.total:.3g} s per step, "
        f"{best.tokens_per_second:,.0f} tokens/s, {days:,.3g} days per trillion tokens {tried}."
    )


def _memory(best: Candidate) -> str:
    """Memory of the fullest rank of a layout, by the purposes that `cost` names."""
    parts = ", ".join(f"{what} {size / 1e9:,.1f}" for what, size in best.memory.named.items())
    return f"Memory of the fullest rank, GB: {parts}; together {best.memory.total / 1e9:,.1f}."


def _assumed(planned: Planned) -> str:
    hardware = planned.machine.hardware
    reached, rate = hardware.efficiency, hardware.rate(planned.machine.precision.unit)
    sent = any(each.layout.ep > 1 for each in planned.fastest)
    experts = "tokens are sent to experts once per node, and nothing hides that; " if sent else ""
    return (
        f"Assumed: {reached.matrix:.0%} of {rate} in matrix products, {reached.attention:.0%} in attention, "
        f"{reached.network:.0%} of the links' bandwidth, {reached.overlap:.0%} of compute hides transfers of weights and "
        f"gradients; {experts}activations as eager PyTorch saves them, under tensor parallelism with an attention that "
        "writes no scores. "
        "Exposed: share of a step that waits for transfers. Bubble: share in which pipeline stages wait for one another."
    )


COLUMNS: tuple[Column[Candidate], ...] = (
    ("layout", lambda plan: str(plan.layout)),
    ("GB per rank", lambda plan: f"{plan.memory.total / 1e9:.1f}"),
    ("step s", lambda plan: f"{plan.time.total:.3g}"),
    ("tokens/s", lambda plan: f"{plan.tokens_per_second:,.0f}"),
    ("MFU", lambda plan: f"{plan.mfu:.1%}"),
    ("recomputed", lambda plan: plan.layout.checkpointing),
    ("micro-batch", lambda plan: f"{plan.layout.micro_batch} x {plan.layout.micro_batches}"),
    ("sharded", lambda plan: plan.layout.sharded if plan.layout.fsdp > 1 or plan.layout.expert_fsdp > 1 else "-"),
    ("exposed", lambda plan: f"{(plan.time.tensor + plan.time.experts + plan.time.data) / plan.time.total:.0%}"),
    ("bubble", lambda plan: f"{plan.time.bubble / plan.time.total:.0%}"),
)
"""The most important first: a narrow terminal leaves the last ones out, and JSON has them all."""
NUMBERS = ("GB per rank", "step s", "tokens/s", "MFU", "exposed", "bubble")


def data(planned: Planned) -> dict[str, Any]:
    """The layouts tried, as plain data for JSON: bytes and seconds."""
    return {
        "hardware": _hardware(planned),
        "gpus": planned.ranks,
        "sequences": planned.sequences,
        "length": planned.length,
        "tried": planned.tried,
        "fastest": list(map(_candidate, planned.fastest)),
        "too_large": list(map(_candidate, planned.too_large)),
        "impossible": planned.impossible,
    }


def _hardware(planned: Planned) -> dict[str, Any]:
    on = planned.machine.hardware
    names = ("name", "memory", "usable_memory", "bandwidth", "link", "network", "domain", "source")
    figures = {name: getattr(on, name) for name in names}
    return {**figures, "peak": planned.machine.peak, "efficiency": asdict(on.efficiency)}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "layout": asdict(candidate.layout),
        "memory": {**asdict(candidate.memory), "total": candidate.memory.total},
        "sent": {**asdict(candidate.sent), "total": candidate.sent.total},
        "seconds": {**asdict(candidate.time), "total": candidate.time.total},
        "tokens_per_second": candidate.tokens_per_second,
        "mfu": candidate.mfu,
        "why_not": candidate.why_not,
    }
