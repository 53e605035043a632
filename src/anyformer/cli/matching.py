"""`anyformer match`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.amounts import metric, tokens
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import Changes, Json, Tiny, What, output_option, resolve_architecture
from anyformer.cli.as_json import json_of
from anyformer.cli.options import grouped
from anyformer.cli.pages import Figures, Item, Paragraph, Verbatim
from anyformer.costs.rows import PageLine

if TYPE_CHECKING:
    from anyformer.costs.budget import Budget
    from anyformer.costs.match import Match
    from anyformer.costs.sizing import Sizing
    from anyformer.describe import Value
    from anyformer.model import Architecture
    from anyformer.resizing.sizes import Knob

EXAMPLES = """
anyformer match llama-3-8b --params 1.3B --output small.toml
anyformer match mixtral-8x7b --like llama-3-8b --by active-params
anyformer match llama-3-8b --flops 8G --length 8k --move depth,ffn
anyformer match llama-3-8b --compute-optimal 1e21
"""
budget_option = partial(typer.Option, rich_help_panel="Budget (at least one)", metavar="AMOUNT")
search_option = partial(typer.Option, rich_help_panel="Search")
BUDGETS = {
    "params": "parameters",
    "active-params": "active",
    "flops": "training_flops",
    "decode-bytes": "decode_bytes",
}
MEANING = {
    "parameters": "parameters",
    "active": "parameters used by one token",
    "training_flops": "training FLOPs per token",
    "decode_bytes": "bytes read to decode a token",
}


@dataclass(frozen=True)
class BudgetOptions:
    """What the architecture may cost, as numbers or as another one costs."""

    params: Annotated[int | None, budget_option(help="Parameters in all, as in 1.3B.", parser=metric)] = None
    active_params: Annotated[int | None, budget_option(help="Parameters that one token uses, as in 1.3B.", parser=metric)] = (
        None
    )
    flops: Annotated[
        int | None,
        budget_option(help="Training FLOPs per token, forward and backward, at --length, as in 8G.", parser=metric),
    ] = None
    decode_bytes: Annotated[
        int | None,
        budget_option(help="Bytes read to decode a token after --length others, in 16 bits, as in 2G.", parser=metric),
    ] = None
    like: Annotated[
        str | None,
        budget_option(help="Take the budget from this architecture, in the quantity of --by.", metavar="NAME|PATH"),
    ] = None
    by: Annotated[
        str,
        budget_option(
            help="The quantity of --like: params, active-params, flops or decode-bytes, or two of them with a comma between.",
            metavar="QUANTITY",
        ),
    ] = "params"
    compute_optimal: Annotated[
        int | None,
        budget_option(
            help="FLOPs of the whole training, as in 1e21: take the compute-optimal size for them, with 20 tokens per "
            "active parameter (Hoffmann et al. 2022).",
            parser=metric,
        ),
    ] = None
    length: Annotated[
        int,
        budget_option(
            help="Tokens of the sequence that FLOPs and decoding are counted for, as in 8k.", parser=tokens, metavar="TOKENS"
        ),
    ] = 2048


@dataclass(frozen=True)
class SearchOptions:
    """Which sizes change, in which steps."""

    move: Annotated[
        str,
        search_option(
            help="The sizes that may change: width, depth, ffn, with commas between. The last one is adjusted most finely.",
            metavar="SIZES",
        ),
    ] = "width,ffn"
    multiple: Annotated[int, search_option(help="Make widths multiples of this.", min=1, metavar="COUNT")] = 8


@answering()
@grouped
def run(
    name: What,
    *,
    wanted: BudgetOptions,
    search: SearchOptions,
    changes: Changes = None,
    tiny: Tiny = False,
    output: Annotated[
        Path | None,
        output_option(
            help="Write the resized architecture to this file, which must not exist yet.", metavar="FILE.toml|FILE.json"
        ),
    ] = None,
    json: Json = False,
) -> Answer:
    """Change the sizes of an architecture until it costs as much as a budget or another architecture, within 0.5 %.

    Sizes that are within it already stay. Of the two multiples of the last size between which a budget lies, it takes the one
    that costs no more, also where the other is nearer; the other one only where that is more than 0.5 % off.
    """
    if output is not None:
        check_description(output)
    start = resolve_architecture(name, changes, tiny=tiny)
    other = None if wanted.like is None else resolve_architecture(wanted.like, tiny=tiny)

    from anyformer.costs.match import match

    budget, optimal = _budget(wanted, other)
    knobs: dict[str, Knob] = {"width": "width", "depth": "depth", "ffn": "ffn"}
    moved = [knobs[size] for size in listed("--move", search.move, knobs)]

    def page() -> Iterator[Item]:
        if not json:
            yield from _optimal(optimal)
        matched = match(start, budget, move=moved, multiple=search.multiple)
        if output is not None:
            write_description(output, matched.architecture)
        if json:
            yield Verbatim(json_of(data(start, budget, matched, optimal) | {"output": output}))
            return
        yield from _written(name, start, budget, matched)
        if output is not None:
            yield Verbatim(str(output))

    return Answer(page())


def _budget(wanted: BudgetOptions, other: Architecture | None) -> tuple[Budget, list[Sizing]]:
    """The budget, what `other` costs in it, and the sizes that are best for a training, if one was asked for."""
    from anyformer.costs.budget import Budget, budget_of
    from anyformer.costs.sizing import BESIROGLU, HOFFMANN, compute_optimal
    from anyformer.describe import UserError

    targets = {
        "parameters": wanted.params, "active": wanted.active_params, "training_flops": wanted.flops,
        "decode_bytes": wanted.decode_bytes,
    }  # fmt: skip
    if other is not None:
        theirs = budget_of(other, length=wanted.length)
        targets |= {BUDGETS[quantity]: getattr(theirs, BUDGETS[quantity]) for quantity in listed("--by", wanted.by, BUDGETS)}
    optimal: list[Sizing] = []
    if (flops := wanted.compute_optimal) is not None:
        optimal = [compute_optimal(flops), BESIROGLU.best(flops), HOFFMANN.best(flops)]
        targets["active"] = round(optimal[0].parameters)
    budget = Budget(**targets, length=wanted.length)
    if not budget.targets:
        raise UserError(
            "nothing to match: give --params, --active-params, --flops, --decode-bytes, --like or --compute-optimal"
        )
    return budget, optimal


def data(start: Architecture, budget: Budget, matched: Match, optimal: Sequence[Sizing]) -> dict[str, Any]:
    """Sizes and every cost before and after, the budget, and how far off it the largest distance is."""
    from anyformer.costs.budget import budget_of
    from anyformer.resizing.sizes import sizes

    before, after = (budget_of(each, length=budget.length).targets for each in (start, matched.architecture))
    return {
        "length": budget.length,
        "sizes": {"before": sizes(start), "after": matched.sizes},
        "costs": {"before": before, "after": after},
        "budget": budget.targets,
        "off": matched.error,
        "compute_optimal": list(optimal),
        "architecture": matched.architecture.plain(),
    }


def listed(option: str, text: str, known: Iterable[str]) -> list[str]:
    """The words between commas, which must all be known."""
    from anyformer.describe import UserError, did_you_mean

    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise UserError(f"{option} takes no {word!r}{did_you_mean(word, known)}")
    return words


def _optimal(sizings: Sequence[Sizing]) -> Iterator[Item]:
    """The sizes that are best for a training, if one was asked for, the budget's first."""
    if sizings:
        yield PageLine("Compute-optimal sizes; the first one is the budget:")
        yield from (Paragraph(str(sizing), "  ") for sizing in sizings)
        yield PageLine("")


def _written(name: str, start: Architecture, budget: Budget, matched: Match) -> Iterator[Item]:
    """Sizes before and after, then every cost before and after, beside its budget where it has one."""
    from anyformer.costs.budget import budget_of
    from anyformer.costs.figures import NOTHING, Figure, count
    from anyformer.costs.rows import FigureRow, Section
    from anyformer.resizing.sizes import sizes

    before, after = sizes(start), matched.sizes
    moved = [
        FigureRow(knob, (count(old), count(new), Figure("" if old == new else f"{new / old:.3f} x")))
        for knob in ("width", "depth", "ffn")
        for old, new in ((getattr(before, knob), getattr(after, knob)),)
        if old
    ]
    ours, theirs = (budget_of(each, length=budget.length) for each in (start, matched.architecture))
    costs = []
    for what, meaning in MEANING.items():
        target, new = budget.targets.get(what), getattr(theirs, what)
        beside = (count(target), Figure(f"{new / target - 1:+.2%}")) if target else (NOTHING, NOTHING)
        costs.append(FigureRow(meaning, (count(getattr(ours, what)), count(new), *beside)))
    sizes_and_costs = (
        Section(name, ("before", "after", ""), tuple(moved)),
        Section(f"Costs, length {budget.length:,}", ("before", "after", "budget", "off"), tuple(costs)),
    )
    yield Figures(sizes_and_costs)


def check_description(path: Path) -> None:
    """Raise `UserError`, before any work, if a file for a description has another format or exists.

    A picture may be overwritten; a description may have been written by hand.
    """
    from anyformer.describe import UserError
    from anyformer.files import check_file

    if path.suffix not in (".toml", ".json"):
        raise UserError(f"{path}: a description is written as TOML or JSON: give a name that ends in .toml or .json")
    check_file(path)
    if path.exists():
        raise UserError(f"{path}: exists, and may have been written by hand; remove it or give another name")


def write_description(path: Path, value: Value) -> None:
    """Write a description in the format of the file's suffix."""
    from anyformer.describe import to_json, to_toml
    from anyformer.files import write_text

    write_text(path, to_json(value) if path.suffix == ".json" else to_toml(value))
