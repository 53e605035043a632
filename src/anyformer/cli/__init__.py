"""The command line: one module per command. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import contextlib
import gc
import logging
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from anyformer import __version__
from anyformer.cli.aligned import folded
from anyformer.cli.commands import Commands
from anyformer.cli.help_page import HelpGroup
from anyformer.cli.processes import tells
from anyformer.cli.terminal import tell, terminals
from anyformer.describe import Notice, UserError, printable

LOOK, PRICE, RUN = "Look", "Price", "Train and run"
EXCHANGE, EXTEND = "Exchange with Hugging Face", "Extend"
COMMANDS = {
    "help": ("helping", LOOK),
    "list": ("listing", LOOK),
    "show": ("show", LOOK),
    "diff": ("differing", LOOK),
    "atlas": ("atlas", LOOK),
    "explore": ("exploring", LOOK),
    "cost": ("costing", PRICE),
    "plan": ("planning", PRICE),
    "match": ("matching", PRICE),
    "data": ("data", RUN),
    "train": ("train", RUN),
    "watch": ("watch", RUN),
    "launch": ("launching", RUN),
    "generate": ("generate", RUN),
    "reward": ("rewarding", RUN),
    "serve": ("server", RUN),
    "eval": ("evaluating", RUN),
    "probe": ("probing", RUN),
    "inspect": ("model_inside", RUN),
    "compare": ("comparing", RUN),
    "transform": ("transforming", RUN),
    "quantise": ("quantising", RUN),
    "import": ("importing", EXCHANGE),
    "export": ("exporting", EXCHANGE),
    "verify": ("verifying", EXCHANGE),
    "port": ("porting", EXCHANGE),
    "conform": ("conforming", EXCHANGE),
    "new": ("starting", EXTEND),
    "check": ("checking", EXTEND),
}
"""Every command: the module of its `run` and `EXAMPLES`, and its group in `anyformer --help`."""
LOUD = ("torchao", "torch.utils._pytree")
"""Loggers that warn, at any import of transformers, of kernels for other machines and of names that torch will change."""
CLASSES = {"cost": "CostCommand"}
"""Commands that parse their arguments in their own way, and the class that does, in their module."""


class CommandLine(HelpGroup):
    """`anyformer` and its commands."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.commands = Commands(COMMANDS, CLASSES)  # type: ignore[assignment]


app = typer.Typer(
    name="anyformer",
    cls=CommandLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
    anyformer list
    anyformer show llama-3-8b
    anyformer cost llama-3-8b
    anyformer train llama-12m --data python-stdlib
    """,
)


def _version(given: bool) -> None:
    if given:
        print(f"anyformer {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Any transformer, from one description: know what it costs, train it, compare it, run it.

    `anyformer COMMAND --help` explains a command and shows examples.
    """


@contextlib.contextmanager
def _notices() -> Iterator[None]:
    """Show a notice as one line on standard error; any other warning as Python does."""
    usual = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, Notice):
            tell(f"anyformer: {message}")
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = shown
        yield


def _quiet() -> None:
    """Keep to themselves what libraries say of their own parts when they are imported."""
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)


def main() -> None:
    """Run the command; a user's error is one clear message and exit code 2, never a traceback."""
    _quiet()
    try:
        with terminals(), _notices():
            app(prog_name="anyformer")
    except UserError as error:
        if tells(error):
            text = printable(f"anyformer: {error}")
            tell(folded(text, shutil.get_terminal_size().columns) if sys.stderr.isatty() else text)
        sys.exit(error.exit_code)
    finally:
        gc.freeze()  # the process ends now, and collecting garbage first would take a third of a second
