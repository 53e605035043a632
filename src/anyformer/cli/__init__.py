"""The command line: one verb each, thin. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from anyformer import __version__
from anyformer.cli import (
    costing,
    differing,
    exporting,
    generate,
    importing,
    listing,
    matching,
    planning,
    show,
    train,
    verifying,
)
from anyformer.describe import UserError

app = typer.Typer(
    name="anyformer",
    help="Any transformer, from one description: know what it costs, train it, compare it, run it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]anyformer list[/bold], then [bold]anyformer show NAME[/bold], "
    "[bold]anyformer cost NAME[/bold], then [bold]anyformer train NAME --data PATH[/bold].",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"anyformer {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Any transformer, from one description: know what it costs, train it, compare it, run it."""


app.command("list")(listing.run)
app.command("show")(show.run)
app.command("cost", epilog=costing.EXAMPLES, cls=costing.Command)(costing.run)
app.command("match", epilog=matching.EXAMPLES)(matching.run)
app.command("diff")(differing.run)
app.command("plan", epilog=planning.EXAMPLES)(planning.run)
app.command("train", epilog=train.ENDS)(train.run)
app.command("generate")(generate.run)
app.command("import")(importing.run)
app.command("export")(exporting.run)
app.command("verify")(verifying.run)


def main() -> None:
    """Run the command; a mistake of the user's is one clear message and exit code 2, never a traceback."""
    try:
        app()
    except UserError as error:
        print(f"anyformer: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of a pipe left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    finally:
        gc.freeze()  # all goes with the process, and to look through it for garbage first would take a third of a second
