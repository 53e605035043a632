"""`anyformer match`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.amounts import metric, tokens
from anyformer.cli.arguments import Changes, Tiny, What, found

if TYPE_CHECKING:
    from anyformer.costs.budget import Budget
    from anyformer.costs.match import Match
    from anyformer.costs.reshape import Knob
    from anyformer.model import Architecture

EXAMPLES = """
Examples:

  anyformer match llama-3-8b --params 1.3B --output small.toml

  anyformer match mixtral-8x7b --like llama-3-8b --by active-params

  anyformer match llama-3-8b --flops 8G --length 8k --move depth,ffn

  anyformer match llama-3-8b --compute-optimal 1e21
"""
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


def run(
    name: What,
    params: Annotated[int | None, typer.Option(help="Parameters, all that are stored.", parser=metric, metavar="1.3B")] = None,
    active_params: Annotated[
        int | None, typer.Option(help="Parameters that one token uses.", parser=metric, metavar="1.3B")
    ] = None,
    flops: Annotated[
        int | None,
        typer.Option(help="Training FLOPs per token, forward and backward, at --length.", parser=metric, metavar="8G"),
    ] = None,
    decode_bytes: Annotated[
        int | None,
        typer.Option(help="Bytes read to decode a token after --length others, in 16 bits.", parser=metric, metavar="2GB"),
    ] = None,
    like: Annotated[
        str | None, typer.Option(help="Another architecture whose cost is the budget, in what --by says.", metavar="OTHER")
    ] = None,
    by: Annotated[
        str, typer.Option(help="What is made alike: params, active-params, flops, decode-bytes, or two of them with a comma.")
    ] = "params",
    compute_optimal: Annotated[
        int | None,
        typer.Option(
            help="Training FLOPs in all: as many parameters in use as 20 tokens for each of them allow (Hoffmann et al. 2022).",
            parser=metric,
            metavar="1e21",
        ),
    ] = None,
    length: Annotated[
        int, typer.Option(help="Tokens per sequence that FLOPs and decoding are for.", parser=tokens, metavar="TOKENS")
    ] = 2048,
    move: Annotated[str, typer.Option(help="What may change, of width, depth and ffn, the finest last.")] = "width,ffn",
    multiple: Annotated[int, typer.Option(help="What widths are multiples of.", min=1)] = 8,
    changes: Changes = None,
    tiny: Tiny = False,
    output: Annotated[Path | None, typer.Option(help="Write the architecture.", metavar="FILE.toml")] = None,
) -> None:
    """Change an architecture's sizes until it costs what a budget or another architecture says, within 0.5 %."""
    from anyformer.costs.budget import Budget, budget_of
    from anyformer.costs.match import match
    from anyformer.costs.sizing import BESIROGLU, HOFFMANN
    from anyformer.costs.sizing import compute_optimal as optimum
    from anyformer.describe import UserError, to_toml
    from anyformer.files import check_file, write_text

    if output is not None:
        check_file(output)
    start = found(name, changes, tiny=tiny)
    asked = {"parameters": params, "active": active_params, "training_flops": flops, "decode_bytes": decode_bytes}
    if like is not None:
        theirs = budget_of(found(like, tiny=tiny), length=length)
        asked |= {BUDGETS[each]: getattr(theirs, BUDGETS[each]) for each in listed("--by", by, BUDGETS)}
    if compute_optimal is not None:
        asked["active"] = round(optimum(compute_optimal).parameters)
        for sizing in (optimum(compute_optimal), BESIROGLU.best(compute_optimal), HOFFMANN.best(compute_optimal)):
            print(f"compute-optimal: {sizing}")
        print()
    budget = Budget(**asked, length=length)
    if not budget.targets:
        raise UserError(
            "nothing to match: give --params, --active-params, --flops, --decode-bytes, --like or --compute-optimal"
        )
    knobs: dict[str, Knob] = {"width": "width", "depth": "depth", "ffn": "ffn"}
    matched = match(start, budget, move=[knobs[each] for each in listed("--move", move, knobs)], multiple=multiple)
    for line in _written(name, start, budget, matched):
        print(line)
    if output is not None:
        write_text(output, to_toml(matched.architecture))
        print(output)


def listed(option: str, text: str, known: Iterable[str]) -> list[str]:
    """The words between commas, each of which must be known."""
    from anyformer.describe import UserError, did_you_mean

    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise UserError(f"{option}: {word!r} is none of them{did_you_mean(word, known)}")
    return words


def _written(name: str, start: Architecture, budget: Budget, matched: Match) -> Iterator[str]:
    """Sizes before and after, what it costs beside the budget, and what nobody asked for."""
    from anyformer.costs.budget import budget_of
    from anyformer.costs.figures import NOTHING, Figure, count
    from anyformer.costs.reshape import sizes
    from anyformer.costs.text import Row, Section, lines

    before, after = sizes(start), matched.sizes
    moved = [
        Row(knob, (count(old), count(new), Figure("" if old == new else f"{new / old:.3f} x")))
        for knob in ("width", "depth", "ffn")
        for old, new in ((getattr(before, knob), getattr(after, knob)),)
        if old
    ]
    ours, theirs = (budget_of(each, length=budget.length) for each in (start, matched.architecture))
    costs = []
    for what, meaning in MEANING.items():
        target, new = budget.targets.get(what), getattr(theirs, what)
        asked = (count(target), Figure(f"{new / target - 1:+.2%}")) if target else (NOTHING, NOTHING)
        costs.append(Row(meaning, (count(getattr(ours, what)), count(new), *asked)))
    sections = (
        Section(name, ("before", "after", ""), tuple(moved)),
        Section(f"Costs, length {budget.length:,}", ("before", "after", "budget", "off"), tuple(costs)),
    )
    yield from (line.text for line in lines(sections))
