"""Arguments that several commands share, so that they read and work alike in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anyformer.model import Architecture

WHAT = (
    "A catalogue name (see `anyformer list`); a .toml or .json file of an architecture or a run; a config.json; "
    "or the directory of a run, a checkpoint or a Hugging Face model."
)
"""What may name an architecture."""

What = Annotated[str, typer.Argument(help=WHAT, metavar="NAME|PATH")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a value by its path first, as in --set decoder.layer.attention.kv_heads=2. Repeat for more.",
        metavar="PATH=VALUE",
    ),
]
Tiny = Annotated[
    bool, typer.Option("--tiny", help="Shrink it first: small sizes, one layer of each kind, every mechanism kept.")
]


def assigned(changes: list[str] | None) -> dict[str, object]:
    """The values that `--set` options give, by path."""
    from anyformer.describe import parse_assignment

    return dict(parse_assignment(text) for text in changes or [])


def found(what: str, changes: list[str] | None = None, *, tiny: bool = False) -> Architecture:
    """The architecture that an argument names, changed as the options say."""
    from anyformer.resolving import architecture

    return architecture(what, tiny=tiny, changes=assigned(changes))
