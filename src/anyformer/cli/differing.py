"""`anyformer diff`."""

from __future__ import annotations

import json as jsons
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.aligned import aligned, wrapped
from anyformer.cli.arguments import (
    WHAT,
    Batch,
    Changes,
    Compact,
    Json,
    Length,
    Tiny,
    check_form,
    diagram_option,
    resolve_architecture,
    titled,
)

EXAMPLES = """
anyformer diff llama-3-8b qwen3-8b
anyformer diff gpt2 gpt2 --set decoder.layer.attention.kv_heads=1
anyformer diff mixtral-8x7b mixtral-8x7b --set decoder.layer.experts.chosen=1 --length 32k
anyformer diff llama-3-8b gemma-3-4b --diagram both.svg
"""

LENGTH = 4096
HEADLINES = ("parameters", "FLOPs of prefill per token", "decode state")
SAME = "as before"

if TYPE_CHECKING:
    from anyformer.differences import Difference
    from anyformer.model import Architecture


def run(
    left: Annotated[str, typer.Argument(help=f"The architecture to start from. {WHAT}", metavar="FROM")],
    right: Annotated[
        str, typer.Argument(help="The architecture to compare it with, named likewise. --set changes this one.", metavar="TO")
    ],
    changes: Changes = None,
    tiny: Tiny = False,
    diagram: Annotated[
        Path | None, diagram_option(help="Draw both side by side instead, with their differences in colour.")
    ] = None,
    compact: Compact = False,
    length: Length = None,
    batch: Batch = 1,
    json: Json = False,
) -> None:
    """Say what differs between two architectures, and how that changes parameters, FLOPs and decode state."""
    check_form(diagram, compact=compact)
    start, end = resolve_architecture(left, tiny=tiny), resolve_architecture(right, changes, tiny=tiny)

    from anyformer.costs.page import longest
    from anyformer.differences import difference

    if diagram is not None:
        draw_pair((titled(left, tiny=tiny), start), (titled(right, changes, tiny=tiny), end), diagram, compact=compact)
        return
    changed = shlex.join([right, *(word for change in changes or [] for word in ("--set", change))])
    tables = {left: longest(start), changed: longest(end)}
    length = length or min(LENGTH, *(table or LENGTH for table in tables.values()))
    differs = difference(start, end, batch=batch, length=length)
    if json:
        print(jsons.dumps(asdict(differs), indent=2))
        return
    width = shutil.get_terminal_size().columns
    typer.echo("\n".join(page(left, changed, differs, f"Costs of {batch:,} x {length:,} tokens, in bf16", width)))
    for name, table in tables.items():
        if table is not None and table < length:
            print(f"{name}: its position table ends at {table:,}, so it cannot be run at {length:,}.")


def page(left: str, right: str, differs: Difference, title: str, width: int) -> Iterator[str]:
    """The answer in a sentence or two, then every value that differs, then the costs."""
    yield from wrapped(f"From {left} to {right}: {answer(differs)}", width)
    if not differs.details:
        return
    yield from ("", typer.style("What differs", bold=True))
    for change in differs.details:
        yield from wrapped(f"{change.what}: {change.left} -> {change.right}", width, "  ")
    yield from ("", typer.style(title, bold=True))
    rows = [
        (change.what, change.left, "->", change.right, "" if change.ratio is None else times(change.ratio))
        for change in differs.costs
    ]
    yield from (f"  {line}" for line in aligned(rows, (False, True, False, True, False)))


def draw_pair(left: tuple[str, Architecture], right: tuple[str, Architecture], path: Path, *, compact: bool = False) -> None:
    """Draw two architectures side by side; where both have one name, the right one is marked."""
    from anyformer.pictures import draw_diagram

    name, other = left[0], right[0]
    draw_diagram({name: left[1], f"{other} (right)" if other == name else other: right[1]}, path, compact=compact)
    print(path)


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
