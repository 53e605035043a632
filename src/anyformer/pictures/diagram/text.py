"""The width of text, by the metrics of its font."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

FONT = "DejaVu Sans"
"""It comes with matplotlib, and is wide: where an SVG is shown in another font, text still fits its box."""
LINE = 1.28
"""Height of a line of text, in sizes."""
_MEASURED = 100.0
_FIXED = 65_536
"""FreeType gives unhinted advances in 65,536ths of a pixel."""


@cache
def _font(bold: bool) -> FT2Font:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties(family=FONT, weight="bold" if bold else "normal")))


@cache
def _advance(letter: str, bold: bool) -> float:
    """The width of a letter, in sizes."""
    font = _font(bold)
    font.set_size(_MEASURED, 72)
    return float(font.load_char(ord(letter)).linearHoriAdvance) / _FIXED / _MEASURED


def width_of(text: str, size: float, bold: bool = False) -> float:
    """Points from the left of the first letter to the right of the last; kerning can only make it less."""
    return sum(_advance(letter, bold) for letter in text) * size


UNBROKEN = "\u00a0"
"""A space at which no line is broken."""


def listed(facts: Sequence[str], size: float, width: float) -> list[str]:
    """Lines of facts with dots between them; a line is broken inside a fact only where it alone is too long."""
    whole = (fact.replace(" ", UNBROKEN) if width_of(f"{fact} ·", size) <= width else fact for fact in facts)
    return wrapped(" · ".join(whole).replace(" · ", f"{UNBROKEN}· "), size, width) if facts else []


def wrapped(text: str, size: float, width: float, bold: bool = False) -> list[str]:
    """Lines of whole words that fit a width; one that does not fit is broken at its hyphens, else where its line is full."""
    lines: list[str] = []
    for word in (piece for whole in text.split(" ") for piece in _pieces(whole, size, width, bold)):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _pieces(word: str, size: float, width: float, bold: bool) -> Iterator[str]:
    """A word, or pieces of it that fit a width, of two letters at least."""
    if width_of(word, size, bold) <= width:
        yield word
        return
    for part in re.findall("[^-]*-|[^-]+", word):
        while width_of(part, size, bold) > width:
            fits = max((n for n in range(2, len(part) - 1) if width_of(f"{part[:n]}-", size, bold) <= width), default=0)
            if not fits:
                break
            yield f"{part[:fits]}-"
            part = part[fits:]
        yield part
