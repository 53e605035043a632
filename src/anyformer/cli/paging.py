"""`anyformer plan A [B ...] --serve --engine-memory ENGINE`: what an engine makes of an accelerator's memory."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from anyformer.cli.answering import Answer
from anyformer.cli.pages import Figures, Item, Paragraph, Verbatim
from anyformer.cli.queue_options import ArrivalOptions
from anyformer.costs.figures import count, exact, size
from anyformer.costs.rows import FigureRow, PageLine, Section
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.engine_memory import EngineMemory


def answered(
    made: Mapping[str, Architecture], asked: ArrivalOptions, length: int, on: Hardware, ranks: int, plan: Plan, *, json: bool
) -> Answer:
    """The memory of one rank for every architecture, one below the other."""
    from anyformer.planning.engine_memory import EngineMemory

    assert asked.engine_memory is not None, "it was asked for"
    page, told = list[Item](), []
    for name, each in made.items():
        try:
            memory = EngineMemory(
                each, asked.engine_memory, int(on.memory), ranks, asked.weights, plan=on.resolved(plan)
            )  # fmt: skip
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
        told.append(_data(name, memory, length))
        page += [*([PageLine("")] if page else []), *_page(name, memory, length, on)]
    return Answer([Verbatim(jsons.dumps(told, indent=2))] if json else page)


def _page(name: str, memory: EngineMemory, length: int, on: Hardware) -> Iterator[Item]:
    texts = memory.texts(length)
    windows = memory.windows(length, 1) if memory.paging.apart else 0
    ranks = f"{memory.ranks:,} {on.title}"
    yield PageLine(
        f"{name} in {memory.engine} on {ranks}: {texts:,} text{'' if texts == 1 else 's'} of {length:,} tokens at once",
        strong=True,
    )
    yield PageLine("")
    rows = (
        FigureRow("memory", (size(memory.room),)),
        FigureRow(f"weights, {memory.format}", (size(memory.weights),)),
        FigureRow(f"activations of {memory.step:,} tokens", (size(memory.activations),)),
        FigureRow("cache", (size(memory.cache),)),
        FigureRow("  a token", (exact(memory.token),)),
        FigureRow(f"  pages of {memory.page:,}", (count(memory.pages),)),
        FigureRow("  tokens", (count(memory.tokens),)),
        *([FigureRow("  windows of a text", (size(windows),))] if windows else ()),
        *([FigureRow("  recurrent states of a text", (size(memory.slot),))] if memory.slot else ()),
    )
    yield Figures((Section("On each accelerator", ("",), rows),))
    yield PageLine("")
    free = " that weights and activations leave" if memory.paging.of_free else ""
    yield Paragraph(
        f"The engine takes {memory.share_taken:.0%} of the memory{free}. Not counted: the context of CUDA, graphs, and what "
        "others hold, which an engine measures when it starts."
    )


def _data(name: str, memory: EngineMemory, length: int) -> dict[str, Any]:
    """Plain data, for JSON: bytes of one accelerator."""
    figures = ("room", "ranks", "weights", "activations", "cache", "token", "pages", "tokens")
    return {
        "name": name,
        "engine": memory.engine,
        **{each: getattr(memory, each) for each in figures},
        "texts": memory.texts(length),
    }
