"""Keys that move nothing beside the other keys of a base, moved beside those of the other tiny configurations of its type."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.drift.asked import ABSENT, HIDDEN
from benchmarks.drift.keys import Path as Keys
from benchmarks.drift.keys import text_path
from benchmarks.drift.outcome import Tried
from benchmarks.drift.trial import Base
from benchmarks.drift.values import LENGTH

from huggingface.case import Case
from huggingface.cases import CASES

UNMOVED = ("", HIDDEN, ABSENT)
"""Reasons that another configuration may do away with; without one too."""


def open_keys(tried: Iterable[Tried]) -> tuple[str, ...]:
    """Keys, dotted, that were compared and move nothing for none but such a reason."""
    of: dict[str, list[Tried]] = defaultdict(list)
    for each in tried:
        if each.key and each.ended == "equal":
            of[each.key].append(each)
    return tuple(sorted(key for key, values in of.items() if all(map(_is_open, values))))


def _is_open(tried: Tried) -> bool:
    return not tried.moves and tried.why in UNMOVED and not (LENGTH.search(tried.key) and not tried.why)


def mark(keys: Iterable[str]) -> str:
    """What the line says that ends their trials elsewhere."""
    return "elsewhere " + hashlib.sha256(" ".join(keys).encode()).hexdigest()[:12]


def elsewhere(name: str, case: Case, keys: Iterable[str], usual: Mapping[Keys, Any]) -> Iterator[Tried]:
    """Values of open keys beside the keys of the type's other cases, until one moves what is computed or trained.

    `name`, `case`: the base's; `usual`: the default of every key.
    """
    left = {tuple(key.split(".")) for key in keys}
    for other in CASES if not text_path(case) else ():
        if other.model_type != case.model_type or (other.task, other.config) == (case.task, case.config) or not left:
            continue
        base = Base(other)
        if base.outcome.ended != "equal":
            continue
        for path in sorted(path for path in left & usual.keys() if base.asks(path)):
            for move in base.moves(path, usual[path]):
                tried = Tried(name, ".".join(path), f"{written(move)} beside {other}", **vars(base.tried(path, move)))
                yield tried
                if tried.moves or tried.why not in UNMOVED:
                    left.discard(path)
                    break


def written(move: Mapping[str, Any]) -> str:
    """A move as a line says it."""
    return json.dumps(move, default=lambda each: "..." if each is ... else str(each))
