"""`anyformer watch`."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json
from anyformer.cli.terminal import with_bars

if TYPE_CHECKING:
    from anyformer.exploring.run_status import RunFiles

EXAMPLES = """
anyformer watch runs/2026-01-01-120000
anyformer watch runs/one runs/two --every 5
anyformer watch runs/2026-01-01-120000 --once
"""


def run(
    directories: Annotated[list[Path], typer.Argument(help="The directory of a run; or of several.", metavar="RUN")],
    once: Annotated[bool, typer.Option("--once", help="Print how the runs stand now, and end.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks.", metavar="SECONDS", min=0.1, show_default=True)] = 2.0,
    json: Json = False,
) -> None:
    """Watch a run, or look at one that has ended, from its directory alone.

    Losses, speed, shares of the peak (MFU and HFU), memory, where the time goes, which process is slow, the last checkpoint,
    the time of the remaining updates, and why the run ended. The page ends when all runs have ended, and by Ctrl-C, which
    leaves the runs alone. In a pipe or a file it is printed once.
    """
    from anyformer.exploring.run_status import RunFiles

    files = [RunFiles(directory) for directory in directories]
    if json:
        print_json([each.status().facts() for each in files])
    elif once or not sys.stdout.isatty():
        from rich.console import Console

        from anyformer.cli.run_page import page

        width = shutil.get_terminal_size((100, 24)).columns
        Console(width=width, highlight=False, markup=False).print(page([each.status() for each in files], width))
    else:
        follow(files, lambda: time.sleep(every))


def follow(files: Sequence[RunFiles], wait: Callable[[], None]) -> None:
    """Show the page anew until every run has ended, or Ctrl-C."""
    from rich.live import Live

    from anyformer.cli.run_page import page

    console = with_bars()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while True:
                found = [each.status() for each in files]
                live.update(page(found, console.width), refresh=True)
                if all(status.ended for status in found):
                    return
                wait()
        except KeyboardInterrupt:
            return
