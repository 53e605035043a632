"""Arguments that several commands share, so that they read and work alike in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.amounts import tokens

if TYPE_CHECKING:
    from anyformer.model import Architecture

WHAT = (
    "A name from `anyformer list`; a .toml or .json file of an architecture or a run; a config.json; "
    "or the directory of a run, a checkpoint or a Hugging Face model."
)
"""What may name an architecture."""
CHANGE, WORKLOAD, MACHINE, OUTPUT, PICTURES = "Changes to the architecture", "Workload", "Machine", "Output", "Pictures"
"""Titles of the groups that `--help` shows options in."""

What = Annotated[str, typer.Argument(help=WHAT, metavar="NAME|PATH")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change the value at this path first, as in --set decoder.layer.attention.kv_heads=2. Repeat it for more changes.",
        metavar="PATH=VALUE",
        rich_help_panel=CHANGE,
    ),
]
Tiny = Annotated[
    bool,
    typer.Option(
        "--tiny",
        help="Shrink the architecture first: small sizes, one layer of each kind, every mechanism kept.",
        rich_help_panel=CHANGE,
    ),
]
Length = Annotated[
    int | None,
    typer.Option(
        help="Tokens of each sequence that costs or pictures are for, as in 8k for 8,192. Of costs by default 4k, or fewer "
        "where a position table ends before.",
        parser=tokens,
        metavar="TOKENS",
        rich_help_panel=WORKLOAD,
    ),
]
Batch = Annotated[
    int,
    typer.Option(help="Sequences that costs are for.", parser=tokens, metavar="COUNT", rich_help_panel=WORKLOAD),
]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.", rich_help_panel=OUTPUT)]


def assigned(changes: list[str] | None) -> dict[str, object]:
    """The values that `--set` options give, by path."""
    from anyformer.describe import parse_assignment

    return dict(parse_assignment(text) for text in changes or [])


def guesses(name: str) -> list[str]:
    """What stands in for the figures of a catalogue entry that are not public, or for what no part describes."""
    from anyformer.catalogue import listed

    entry = listed(name)
    stand_in = None if entry is None else entry.stand_in
    return [f"a stand-in, whose figures are not exact: {stand_in}."] if stand_in else []


def found(what: str, changes: list[str] | None = None, *, tiny: bool = False) -> Architecture:
    """The architecture that an argument names, changed as the options say."""
    from anyformer.resolving import architecture

    return architecture(what, tiny=tiny, changes=assigned(changes))
