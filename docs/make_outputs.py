"""Fills in what commands print on the README and in the pages: `python docs/make_outputs.py`. A test holds them to it.

A block that starts with `$ anyformer ...` is that command with its output; `| head -8` after it keeps the first 8 lines.
Everything else of a page is written by hand.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *(ROOT / "docs" / name for name in ("costs.md", "queues.md", "failures.md", "reference/costs.md")))
BLOCK = re.compile(r"^```\n\$ anyformer ([^|\n]*?)(?: \| head -(\d+))?\n(?:.*\n)*?```$", re.M)
COLUMNS = "100"


def output(command: str, head: str | None = None) -> str:
    """What a command prints in a terminal of `COLUMNS` columns; its first lines only where `head` counts them."""
    from anyformer.cli import main

    out = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": COLUMNS}),
        mock.patch.object(sys, "argv", ["anyformer", *shlex.split(command)]),
        mock.patch("gc.freeze"),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        main()
    lines = [line.rstrip() for line in out.getvalue().strip("\n").splitlines()]
    return "\n".join(lines[: int(head)] if head else lines)


def block(found: re.Match[str]) -> str:
    """The block with its command's output as of now."""
    head = f" | head -{found[2]}" if found[2] else ""
    return f"```\n$ anyformer {found[1]}{head}\n{output(found[1], found[2])}\n```"


def page(path: Path) -> str:
    """A page with every output as of now."""
    return BLOCK.sub(block, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path), encoding="utf-8")
