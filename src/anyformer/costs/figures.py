"""Quantities as people read them: a number with its unit, short."""

from __future__ import annotations

from dataclasses import dataclass

PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Figure:
    """`text` as it is printed; `number` where figures of several architectures can be compared."""

    text: str
    number: float | None = None

    def __str__(self) -> str:
        return self.text


NOTHING = Figure("")


def count(number: float) -> Figure:
    return Figure(f"{number:,.0f}", number)


def size(number: float) -> Figure:
    """Bytes, 1 GB = 10^9."""
    return Figure(f"{scaled(number)}B", number)


def exact(number: int) -> Figure:
    """Bytes, to the unit."""
    return Figure(f"{number:,} B", number)


def flops(number: float) -> Figure:
    return Figure(scaled(number).strip(), number)


def share(number: float) -> Figure:
    return Figure(f"{number:.1%}", number)


def seconds(number: float) -> Figure:
    return Figure(clock(number), number)


def decimal(number: float) -> Figure:
    return Figure(f"{number:,.1f}", number)


def scaled(number: float) -> str:
    """A number with a metric prefix: 12.3 G."""
    for factor, prefix in PREFIXES:
        if number >= factor:
            return f"{number / factor:.4g} {prefix}"
    return f"{number:.4g} "


def clock(number: float) -> str:
    """Seconds, milliseconds or microseconds, four digits."""
    unit, factor = next((pair for pair in (("s", 1.0), ("ms", 1e-3)) if number >= pair[1]), ("us", 1e-6))
    return f"{number / factor:.4g} {unit}"


def in_time(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
