"""Foreign words as a terminal may show them: without control characters, which could move it or hide what it says."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but for tab and newline; and halves of surrogate pairs, as in names of files that are not UTF-8."""


def printable(text: str, tabs: bool = False) -> str:
    r"""Control characters as escapes, as in \x07; newlines stay, and `tabs` if asked for."""
    escaped = _CONTROLS.sub(lambda match: _escape(match[0]), text)
    return escaped if tabs else escaped.replace("\t", "\\t")


def _escape(letter: str) -> str:
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"
