"""Numbers as people write them on a command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import typer

from anyformer.describe.amounts import BINARY, METRIC

ALL = {**METRIC, "p": 10**15, "e": 10**18}
MOST_TOKENS = 2**53
"""Most tokens of a step; `Shape` limits the length of a sequence."""
MOST = 10**30
"""Most of any other quantity: more FLOPs than all training so far."""


def tokens(text: str | int) -> int:
    """Lengths and batches: `8k` is 8,192, `4M` is 4,194,304; `4000`, `4_000`."""
    return _amount(text, BINARY, MOST_TOKENS, "4M, 512k, 4096 (k is 1,024)")


def metric(text: str | int) -> int:
    """Parameters, FLOPs and bytes: `1.3B`, `70e9`, `350M`; G and B are 10^9."""
    return _amount(text, ALL, MOST, "1.3B, 350M, 70e9 (B is 10^9)")


@dataclass(frozen=True)
class AmountRange:
    """Numbers from `low` to `high`, both among them; either may be open."""

    low: int | None
    high: int | None
    text: str
    """As it was typed."""

    def __contains__(self, number: int) -> bool:
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)


def metric_range(text: str) -> AmountRange:
    """A range of amounts as `metric` reads them, either side open: `1B..10B`, `..4B`, `70B..`."""
    low, dots, high = str(text).strip().partition("..")
    if not dots or not (low or high):
        raise typer.BadParameter(f"{text!r} is not a range like 1B..10B, ..4B or 70B..")
    found = AmountRange(metric(low) if low else None, metric(high) if high else None, text)
    if found.low is not None and found.high is not None and found.low > found.high:
        raise typer.BadParameter(f"{text!r} begins above its end: give {high}..{low}")
    return found


def dollars(text: str | float) -> float:
    """A price of an accelerator-hour: `2`, `2.50`, `$2.50`."""
    match = re.fullmatch(r"\$?(\d+(?:\.\d+)?|\.\d+)", str(text).strip())
    if match is None:
        requests = "; requests a second are --arrivals" if "/" in str(text) else ""
        raise typer.BadParameter(f"{text!r} is no price of an accelerator-hour in dollars, as 2.5{requests}")
    return float(match[1])


def frequency(text: str | float) -> float:
    """So many a second: `20/s`, `300/min`, `1000/h`; `20` is a second's."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+) ?(?:/ ?(s|min|h))?", str(text).strip())
    if match is None or not float(match[1]):
        raise typer.BadParameter(f"{text!r} is no rate like 20/s, 300/min or 1000/h")
    return float(match[1]) / {"s": 1, "min": 60, "h": 3600}[match[2] or "s"]


def duration(text: str | float) -> float:
    """Seconds: `500ms`, `2s`, `1min`; `2` is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+) ?(ms|s|min)?", str(text).strip())
    if match is None or not float(match[1]):
        raise typer.BadParameter(f"{text!r} is no time like 500ms, 2s or 1min")
    return float(match[1]) * {"ms": 1e-3, "s": 1, "min": 60}[match[2] or "s"]


def _amount(text: str | int, scales: dict[str, int], most: int, like: str) -> int:
    letters = "".join(scales)
    match = re.fullmatch(rf"(\d[\d_,]*(?:\.\d+)?(?:[eE]\+?\d+)?) ?([{letters}]?)", str(text).strip(), re.I)
    if not match:
        raise typer.BadParameter(f"{text!r} is not a number like {like}")
    try:
        number = Decimal(match[1].replace("_", "").replace(",", "")) * scales[match[2].lower()]
    except ArithmeticError:  # an exponent too large for Decimal
        number = Decimal("inf")
    if not 1 <= number <= most:
        raise typer.BadParameter(f"{text!r} should be at least 1 and at most {most:,}")
    return round(number)
