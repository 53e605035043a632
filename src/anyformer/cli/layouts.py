"""What `anyformer plan` prints of layouts of a training: the answer, the fastest that fit, and why others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyformer.cli.aligned import aligned, fitting, wrapped

if TYPE_CHECKING:
    from anyformer.planning.planner import Candidate, Planned


def page(what: str, planned: Planned, advice: Sequence[str], width: int) -> Iterator[str]:
    """The answer and what would help, the fastest layouts, and why others are none."""
    yield from wrapped(answer(what, planned), width)
    for line in advice:
        yield from wrapped(line, width, "  ")
    if planned.fastest:
        yield from ("", *_table(planned.fastest, width), "")
        yield from wrapped(_memory(planned.fastest[0]), width)
        yield from wrapped(_assumed(planned), width)
    for each in planned.too_large:
        yield from wrapped(f"Does not fit: {each.layout}: {each.why_not}", width)
    for reason in planned.impossible:
        yield from wrapped(f"Not possible: {reason}", width)


def answer(what: str, planned: Planned) -> str:
    """Whether it trains, how, and how fast, in a sentence."""
    on = planned.machine.hardware
    asked = f"{what} on {planned.ranks:,} {on.name}, {planned.sequences:,} x {planned.length:,} tokens per step"
    tried = f"({planned.tried:,} layouts tried)"
    if not planned.fastest:
        return f"No: {asked}: nothing fits {tried}."
    best = planned.fastest[0]
    days = 1e12 / best.tokens_per_second / 86_400
    return (
        f"Yes: {asked}: {best.layout}, {best.layout.checkpointing} recomputed, {best.time.total:.3g} s per step, "
        f"{best.tokens_per_second:,.0f} tokens/s, {days:,.3g} days per trillion tokens {tried}."
    )


def _memory(best: Candidate) -> str:
    """What the fullest rank of a layout holds, as `cost` names it."""
    parts = ", ".join(f"{what} {size / 1e9:,.1f}" for what, size in best.memory.named.items())
    return f"Memory of the fullest rank, GB: {parts}; together {best.memory.total / 1e9:,.1f}."


def _assumed(planned: Planned) -> str:
    reached, peak = planned.machine.hardware.efficiency, planned.machine.peak
    return (
        f"Assumed: {reached.matrix:.0%} of {peak / 1e12:.0f} TFLOP/s in matrix products, {reached.attention:.0%} in attention, "
        f"{reached.network:.0%} of the links' bandwidth, {reached.overlap:.0%} of compute hides transfers of weights and "
        "gradients; activations as eager PyTorch keeps them, where weights are divided with an attention that writes no scores."
    )


COLUMNS: tuple[tuple[str, Callable[[Candidate], str]], ...] = (
    ("layout", lambda each: str(each.layout)),
    ("GB per rank", lambda each: f"{each.memory.total / 1e9:.1f}"),
    ("step s", lambda each: f"{each.time.total:.3g}"),
    ("tokens/s", lambda each: f"{each.tokens_per_second:,.0f}"),
    ("MFU", lambda each: f"{each.mfu:.1%}"),
    ("recomputed", lambda each: each.layout.checkpointing),
    ("micro-batch", lambda each: f"{each.layout.micro_batch} x {each.layout.micro_batches}"),
    ("sharded", lambda each: each.layout.sharded if each.layout.fsdp > 1 or each.layout.expert_fsdp > 1 else "-"),
    ("exposed", lambda each: f"{(each.time.tensor + each.time.experts + each.time.data) / each.time.total:.0%}"),
    ("bubble", lambda each: f"{each.time.bubble / each.time.total:.0%}"),
)
"""The most telling first: a narrow terminal leaves the last ones out, and JSON has them all."""
NUMBERS = ("GB per rank", "step s", "tokens/s", "MFU", "exposed", "bubble")


def _table(candidates: Sequence[Candidate], width: int) -> list[str]:
    shown = fitting([[head, *map(cell, candidates)] for head, cell in COLUMNS], width)
    columns = [COLUMNS[i] for i in shown]
    rows = [[cell(each) for _, cell in columns] for each in candidates]
    return aligned([[head for head, _ in columns], *rows], [head in NUMBERS for head, _ in columns])


def data(planned: Planned) -> dict[str, Any]:
    """What was found, in plain values: bytes and seconds."""
    return {
        "hardware": _hardware(planned),
        "gpus": planned.ranks,
        "sequences": planned.sequences,
        "length": planned.length,
        "tried": planned.tried,
        "fastest": [_candidate(each) for each in planned.fastest],
        "too_large": [_candidate(each) for each in planned.too_large],
        "impossible": planned.impossible,
    }


def _hardware(planned: Planned) -> dict[str, Any]:
    on = planned.machine.hardware
    names = ("name", "memory", "usable_memory", "bandwidth", "link", "network", "domain", "source")
    figures = {name: getattr(on, name) for name in names}
    return {**figures, "peak": planned.machine.peak, "efficiency": asdict(on.efficiency)}


def _candidate(each: Candidate) -> dict[str, Any]:
    return {
        "layout": asdict(each.layout),
        "memory": {**asdict(each.memory), "total": each.memory.total},
        "sent": {**asdict(each.sent), "total": each.sent.total},
        "seconds": {**asdict(each.time), "total": each.time.total},
        "tokens_per_second": each.tokens_per_second,
        "mfu": each.mfu,
        "why_not": each.why_not,
    }
