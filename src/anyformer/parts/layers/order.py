"""The notation of layers in order: names, `*n` and parentheses, as in `dense*3 moe*58` or `(local*5 global)*8`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby

Run = tuple[str, int]
"""The name of a variant, and how many of it stand in a row."""
LONGEST = 64
"""Runs of a unit that is looked for; the time to look is quadratic in it."""
MOST_LAYERS = 10_000
"""Most layers of a stack: ten times the deepest that was published, and priced in seconds."""
_TOKEN = re.compile(r"\s*(?:([a-z][a-z0-9_]*)|(\()|(\))|\*\s*(\d+))", re.ASCII)


def write_order(names: Iterable[str]) -> str:
    """The shortest notation found of a list of names: a a b -> `a*2 b`, a a b a a b a -> `(a*2 b)*2 a`."""
    units = repeats(runs(names))
    return " ".join(_times(" ".join(_times(*run) for run in unit), times, len(unit)) for unit, times in units)


def runs(names: Iterable[str]) -> list[Run]:
    """Each name with how many of it stand in a row: a a b -> (a, 2), (b, 1)."""
    return [(name, len(list(group))) for name, group in groupby(names)]


def repeats(row: Sequence[Run]) -> list[tuple[tuple[Run, ...], int]]:
    """Runs of layers as units, and how often each stands in a row; what repeats over the most runs is one unit."""
    found: list[tuple[tuple[Run, ...], int]] = []
    at = 0
    while at < len(row):
        unit, times = max(
            (_repeat(row, at, size) for size in range(1, min(LONGEST, (len(row) - at) // 2) + 1)),
            key=lambda pair: len(pair[0]) * pair[1] if pair[1] > 1 else 0,
            default=(tuple(row[at : at + 1]), 1),
        )
        if times == 1:
            unit = unit[:1]
        found.append((unit, times))
        at += len(unit) * times
    return found


def _repeat(row: Sequence[Run], at: int, size: int) -> tuple[tuple[Run, ...], int]:
    """The `size` runs that start at `at`, and how often they stand there in a row."""
    unit, times = tuple(row[at : at + size]), 1
    while tuple(row[at + size * times : at + size * (times + 1)]) == unit:
        times += 1
    return unit, times


def _times(text: str, times: int, parts: int = 1) -> str:
    return text if times == 1 else f"({text})*{times}" if parts > 1 else f"{text}*{times}"


@cache
def parse_order(text: str) -> tuple[str, ...]:
    """The names that an order stands for, in order: `(a*2 b)*2` -> a a b a a b. At most `MOST_LAYERS`, counted before made."""
    levels: list[list[list[str]]] = [[]]
    at = 0
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        if not token:
            raise ValueError(
                f"order {_short(text)} cannot be read at {_short(text[at:])}: expected names, '*n' and parentheses"
            )
        name, opens, closes, times = token.groups()
        if name:
            levels[-1].append([name])
        elif opens:
            levels.append([])
        elif closes:
            if len(levels) == 1:
                raise ValueError(f"order {_short(text)} closes a parenthesis it never opened")
            group = levels.pop()
            levels[-1].append([item for part in group for item in part])
        elif times:
            if not levels[-1] or not times.strip("0"):
                raise ValueError(f"order {_short(text)}: '*{times}' should follow a name or a group and be at least 1")
            if len(times) > len(str(MOST_LAYERS)) or len(levels[-1][-1]) * int(times) > MOST_LAYERS:
                raise ValueError(f"order {_short(text)} has more than {MOST_LAYERS:,} layers, the most that a stack may have")
            levels[-1][-1] = levels[-1][-1] * int(times)
        at = token.end()
    if len(levels) > 1:
        raise ValueError(f"order {_short(text)} leaves a parenthesis open")
    names = tuple(item for part in levels[0] for item in part)
    if not names:
        raise ValueError("order is empty: name at least one layer, like 'layer*6'")
    if len(names) > MOST_LAYERS:
        raise ValueError(f"order {_short(text)} has {len(names):,} layers, and a stack may have at most {MOST_LAYERS:,}")
    return names


def _short(text: str) -> str:
    """The text in quotes, its beginning where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
