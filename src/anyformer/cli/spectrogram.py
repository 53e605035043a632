"""A sound on a screen: how long and how loud it is, and its spectrum as shades, high bands above, time to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from anyformer.sound.heard import Heard

BANDS, COLUMNS = 12, 60
SHADES = " ░▒▓█"


def facts(heard: Heard) -> str:
    """A line about a sound."""
    return f"sound: {heard.seconds:.2f} s, {heard.rate:,} samples per second, level {heard.level:.1f} dB, peak {heard.peak:.2f}"


def print_heard(console: Console, heard: Heard) -> None:
    """Print a sound."""
    console.print(Text(facts(heard), style="bold"))
    lines = ("".join(SHADES[min(4, int(value * 5))] for value in row) for row in heard.picture(BANDS, COLUMNS))
    console.print(Text("\n".join(lines), style="blue"), no_wrap=True, overflow="crop")
