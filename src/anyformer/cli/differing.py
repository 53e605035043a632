"""`anyformer diff`."""

from __future__ import annotations

import json as jsons
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.aligned import aligned
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import (
    CHANGED,
    WHAT,
    Batch,
    Changes,
    Compact,
    Json,
    Length,
    Tiny,
    check_form,
    diagram_option,
    output_option,
    resolve_architecture,
    titled,
)
from anyformer.cli.pages import Item, Paragraph, Verbatim
from anyformer.costs.rows import PageLine

EXAMPLES = """
anyformer diff llama-3-8b qwen3-8b
anyformer diff gpt2 gpt2 --set decoder.layer.attention.kv_heads=1
anyformer diff mixtral-8x7b mixtral-8x7b --set decoder.layer.experts.chosen=1 --length 32k
anyformer diff llama-3-8b qwen3-8b gemma-3-4b
anyformer diff llama-3-8b qwen3-8b --steps
anyformer diff llama-3-8b gemma-3-4b --diagram both.svg
"""

LENGTH = 4096
HEADLINES = ("parameters", "FLOPs of prefill per token", "decode state")
SAME = "as before"
AS_FIRST = "same"

if TYPE_CHECKING:
    from anyformer.costs.difference import Change, Difference
    from anyformer.model import Architecture


@answering()
def run(
    left: Annotated[str, typer.Argument(help=f"The architecture to start from. {WHAT}", metavar="FROM")],
    others: Annotated[
        list[str],
        typer.Argument(
            help="The architecture to compare it with, named likewise, or several. --set changes the last one.", metavar="TO"
        ),
    ],
    changes: Changes = None,
    tiny: Tiny = False,
    diagram: Annotated[
        Path | None, diagram_option(help="Draw them side by side instead, with their differences in colour.")
    ] = None,
    compact: Compact = False,
    steps: Annotated[
        bool,
        output_option(
            "--steps", help="Print instead the stairs from each to the next: one change at a time, and what it adds."
        ),
    ] = False,
    length: Length = None,
    batch: Batch = 1,
    json: Json = False,
) -> Answer:
    """Print the differences between architectures, and their effect on parameters, FLOPs and decode state."""
    check_form(diagram, compact=compact)
    check_answer(diagram, steps=steps)
    *between, right = others
    changed = shlex.join([right, *(word for change in changes or [] for word in ("--set", change))])
    start, ends = resolve_architecture(left, tiny=tiny), {name: resolve_architecture(name, tiny=tiny) for name in between}
    ends[changed] = resolve_architecture(right, changes, tiny=tiny)

    from anyformer.costs.difference import difference
    from anyformer.costs.page import longest

    if diagram is not None:
        names = [titled(left, tiny=tiny), *(titled(name, tiny=tiny) for name in between), titled(right, changes, tiny=tiny)]
        draw(names, [start, *ends.values()], diagram, compact=compact)
        return Answer([Verbatim(str(diagram))])
    tables = {left: longest(start), **{name: longest(end) for name, end in ends.items()}}
    length = length or min(LENGTH, *(table or LENGTH for table in tables.values()))
    title = f"Costs of {batch:,} x {length:,} tokens, in bf16"
    beyond = (
        PageLine(f"{name}: its position table ends at {table:,}, so it cannot be run at {length:,}.")
        for name, table in tables.items()
        if table is not None and table < length
    )
    if steps:
        names = [left, *between, f"{right}{CHANGED}" if changes else right]
        made = [start, *(ends[name] for name in between), ends[changed]]
        return stairs_answer(list(zip(names, made, strict=True)), title, beyond, batch=batch, length=length, json=json)
    differ = {name: difference(start, end, batch=batch, length=length) for name, end in ends.items()}
    if json:
        found = {name: asdict(each) for name, each in differ.items()}
        return Answer([Verbatim(jsons.dumps(found if between else found[changed], indent=2))])
    items = abreast(left, differ, title) if between else page(left, changed, differ[changed], title)
    return Answer([*items, *beyond])


def check_answer(diagram: Path | None, *, steps: bool) -> None:
    """Refuse two answers at once."""
    from anyformer.describe import UserError

    if steps and diagram is not None:
        raise UserError("--steps prints a table, and --diagram draws: give one of them at a time")


def stairs_answer(
    named: Sequence[tuple[str, Architecture]], title: str, beyond: Iterable[PageLine], *, batch: int, length: int, json: bool
) -> Answer:
    """The stairs from each architecture to the next; in JSON a list of them."""
    from anyformer.cli.stairs_page import climbed, pages

    stairs = climbed(named, batch=batch, length=length)
    if json:
        return Answer([Verbatim(jsons.dumps([each.data() for each in stairs], indent=2))])
    return Answer([*pages(stairs, title), *beyond])


def page(left: str, right: str, differs: Difference, title: str) -> Iterator[Item]:
    """The answer in a sentence or two, then every value that differs, then the costs."""
    yield Paragraph(f"From {left} to {right}: {answer(differs)}")
    if not differs.details:
        return
    yield from (PageLine(""), PageLine("What differs", strong=True))
    for change in differs.details:
        yield Paragraph(f"{change.what}: {change.left} -> {change.right}", "  ")
    yield from (PageLine(""), PageLine(title, strong=True))
    rows = [
        (change.what, change.left, "->", change.right, "" if change.ratio is None else times(change.ratio))
        for change in differs.costs
    ]
    yield from (PageLine(f"  {line}") for line in aligned(rows, (False, True, False, True, False)))


def draw(names: Sequence[str], architectures: Sequence[Architecture], path: Path, *, compact: bool) -> None:
    """Draw architectures side by side; of a name that stood before, the later one is marked."""
    from anyformer.pictures import draw_diagram

    marked = [f"{name} (right)" if name in names[:i] else name for i, name in enumerate(names)]
    draw_diagram(dict(zip(marked, architectures, strict=True)), path, compact=compact)


def answer(differs: Difference) -> str:
    """Two sentences: the columns of `anyformer list` that differ, and how the costs change."""
    if not differs.details:
        return "nothing differs; the two are the same architecture."
    words = [f"{change.what} {change.left} -> {change.right}" for change in differs.summary]
    costs = [
        f"{change.what} {times(change.ratio)}"
        for change in differs.costs
        if change.ratio is not None and change.what in HEADLINES and times(change.ratio) != SAME
    ]
    kind = f"{'; '.join(words)}. " if words else ""
    price = f"{', '.join(costs)}." if costs else "parameters, FLOPs and decode state stay the same."
    return f"{kind}{price[0].upper() if kind else price[0]}{price[1:]}"


def times(ratio: float) -> str:
    """`-8.0 %` where little changes, `x 5.19` or `/ 12.0` where much does."""
    if abs(ratio - 1) < 5e-5:
        return SAME
    if 0.5 <= ratio < 2:
        return f"{ratio - 1:+.1%}" if abs(ratio - 1) >= 5e-4 else f"{ratio - 1:+.2%}"
    return f"x {ratio:,.3g}" if ratio > 1 else f"/ {1 / ratio:,.3g}" if ratio else "gone"


def abreast(first: str, others: Mapping[str, Difference], title: str) -> Iterator[Item]:
    """More than two architectures: columns of the catalogue, then every value, then costs; of the first, then of the others."""
    yield Paragraph(f"From {first} to {', '.join(others)}, in this order; {AS_FIRST} is as in {first}.")
    found = list(others.values())
    for heading, parts in (
        ("What they are", [each.summary for each in found]),
        ("What differs", [each.details for each in found]),
    ):
        if rows := _rows(parts):
            yield from (PageLine(""), PageLine(heading, strong=True))
        for what, start, ends in rows:
            yield Paragraph(f"{what}: {start} -> {' | '.join(ends)}", "  ")
    yield from (PageLine(""), PageLine(title, strong=True))
    costs = [(what, start, *ends) for what, start, ends in _rows([each.costs for each in found])]
    for line in aligned([("", first, *others), *costs], (False, *(True for _ in range(len(others) + 1)))):
        yield PageLine(f"  {line}")


def _rows(parts: list[tuple[Change, ...]]) -> list[tuple[str, str, list[str]]]:
    """(what differs anywhere, its value in the first, its values in the others), in the order of first mention."""
    starts = {change.what: change.left for changes in reversed(parts) for change in changes}
    ends = [{change.what: change.right for change in changes} for changes in parts]
    order = dict.fromkeys(change.what for changes in parts for change in changes)
    return [(what, starts[what], [each.get(what, AS_FIRST) for each in ends]) for what in order]
