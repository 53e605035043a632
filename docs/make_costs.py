"""Fills in what the commands of costs.md print: `python docs/make_costs.py`.

A block that starts with `$ anyformer ...` is that command with its output; everything else of the page is written by hand.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from anyformer.cli import app

PAGE = Path(__file__).parent / "costs.md"
BLOCK = re.compile(r"^```\n\$ anyformer (.*)\n(?:.*\n)*?```$", re.M)


def output(command: str) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, f"anyformer {command}: {result.output}"
    return result.output.strip("\n")


def page(text: str) -> str:
    """The page with every output as it is now."""
    return BLOCK.sub(lambda found: f"```\n$ anyformer {found[1]}\n{output(found[1])}\n```", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
