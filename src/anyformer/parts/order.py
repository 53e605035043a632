"""The notation of layers in order: names, `*n` and parentheses, as in `dense*3 moe*58` or `(local*5 global)*8`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby

_TOKEN = re.compile(r"\s*(?:([a-z][a-z0-9_]*)|(\()|(\))|\*\s*(\d+))", re.ASCII)
MOST_LAYERS = 10_000
"""Most layers of a stack: ten times the deepest that was published, and priced in seconds."""


def write_order(names: Iterable[str]) -> str:
    """Run-length notation of a list of names: a a b -> `a*2 b`."""
    runs = [(name, len(list(group))) for name, group in groupby(names)]
    return " ".join(name if count == 1 else f"{name}*{count}" for name, count in runs)


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
