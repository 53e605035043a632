"""An image on a screen: its size, its greys as shades, and beside them the class of every pixel as a letter."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from anyformer.cli.text_on_screen import safe

if TYPE_CHECKING:
    from anyformer.data.pictured import Pictured

ROWS, COLUMNS = 16, 32
"""A character is about twice as high as it is wide."""
SHADES = " ░▒▓█"
LETTERS = "·" + ascii_lowercase
"""A dot is the first class, usually the background; `?` are classes behind the last letter, and pixels that are ignored."""


def facts(shown: Pictured) -> str:
    """A line about an image."""
    channels, height, width = shown.image.shape
    shares = (f"{LETTERS[n] if n < len(LETTERS) else '?'} {name}" for n, name in enumerate(shown.labels))
    known = {text: shown.shares.get(name) for text, name in zip(shares, shown.labels, strict=True)}
    classes = "".join(f", {text} {share:.1%}" for text, share in known.items() if share is not None)
    return f"image: {height} x {width} pixels, {channels} channel{'s' * (channels > 1)}{classes}"


def print_picture(console: Console, shown: Pictured) -> None:
    """Print an image, and its mask beside it."""
    console.print(Text(safe(facts(shown)), style="bold"))
    classes = shown.classes(ROWS, COLUMNS)
    for number, row in enumerate(shown.greys(ROWS, COLUMNS)):
        line = Text("".join(SHADES[min(4, int(grey * 5))] for grey in row), style="blue")
        if classes is not None:
            line.append("   ")
            line.append("".join(LETTERS[n] if n < len(LETTERS) else "?" for n in classes[number].tolist()), style="green")
        console.print(line, no_wrap=True, overflow="crop")
