"""Generated text on a screen: control characters are written out, and the prompt is bold."""

from __future__ import annotations

import re
import sys

import typer

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Every control character but tab and newline."""


def safe(text: str) -> str:
    r"""Control characters as escapes, as in \x07; tabs and newlines stay."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def shown(text: str, *, bold: bool = False) -> str:
    """The text for standard output: on a terminal safe, and bold if asked for; unchanged elsewhere."""
    if not sys.stdout.isatty():
        return text
    return typer.style(safe(text), bold=True) if bold and text else safe(text)
