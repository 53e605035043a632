"""The notation of an order of layers: names, `*n` and parentheses, as in `dense*3 moe*58` or `(local*5 global)*8`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

Run = tuple[str, int]
"""The name of a variant, and how many layers of it follow one another."""
LONGEST = 64
"""Most runs in a repeated unit; the time of the search is quadratic in it."""
MOST_LAYERS = 10_000
"""Most layers of a stack: ten times the deepest one published, and still priced in seconds."""
MOST_VARIANTS = 1_000
"""Most variants of a stack, each of which is priced by itself."""
_TOKEN = re.compile(r"\s*(?:([a-z][a-z0-9_]*)|(\()|(\))|\*\s*(\d+))", re.ASCII)


@dataclass(frozen=True)
class LayerOrder:
    """Marks the field of a description that holds an order. `alike`: whether the costs of its holder depend on how many layers
    each variant has, and not on the place of one."""

    alike: Callable[[Any], bool]


def write_order(names: Iterable[str]) -> str:
    """A short notation of a list of names: a a b -> `a*2 b`, a a b a a b a -> `(a*2 b)*2 a`."""
    units = repeats(runs(names))
    return " ".join(_times(" ".join(_times(*run) for run in unit), times, len(unit)) for unit, times in units)


def runs(names: Iterable[str]) -> list[Run]:
    """Each name with the length of its run: a a b -> (a, 2), (b, 1)."""
    return [(name, len(list(group))) for name, group in groupby(names)]


def repeats(layers: Sequence[Run]) -> list[tuple[tuple[Run, ...], int]]:
    """Units of runs, and how often each is repeated; of the units that start at a run, the one that covers the most."""
    found: list[tuple[tuple[Run, ...], int]] = []
    at = 0
    while at < len(layers):
        unit, times = max(
            (_repeat(layers, at, size) for size in range(1, min(LONGEST, (len(layers) - at) // 2) + 1)),
            key=lambda pair: len(pair[0]) * pair[1] if pair[1] > 1 else 0,
            default=(tuple(layers[at : at + 1]), 1),
        )
        if times == 1:
            unit = unit[:1]
        found.append((unit, times))
        at += len(unit) * times
    return found


def _repeat(layers: Sequence[Run], at: int, size: int) -> tuple[tuple[Run, ...], int]:
    """The `size` runs that start at `at`, and how often they follow one another there."""
    unit, times = tuple(layers[at : at + size]), 1
    while tuple(layers[at + size * times : at + size * (times + 1)]) == unit:
        times += 1
    return unit, times


def _times(text: str, times: int, parts: int = 1) -> str:
    return text if times == 1 else f"({text})*{times}" if parts > 1 else f"{text}*{times}"


@cache
def parse_order(text: str) -> tuple[str, ...]:
    """The names that an order stands for: `(a*2 b)*2` -> a a b a a b. At most `MOST_LAYERS`, checked before they are made."""
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
    if (count := len(set(names))) > MOST_VARIANTS:
        raise ValueError(f"order names {count:,} variants, and a stack may have at most {MOST_VARIANTS:,}")
    return names


def count_layers(text: str) -> Counter[str]:
    """The number of layers of every variant in an order."""
    return Counter(parse_order(text))


def _short(text: str) -> str:
    """The text in quotes, or its beginning if it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
