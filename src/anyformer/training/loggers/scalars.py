"""Lines of a run's metrics as numbers under stable names, and as words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

MEASURED = ("train", "validation")
"""Kinds of lines that hold numbers to draw; the others say what happened."""
PLACE = ("kind", "step")
CONSTANT = ("targets", "seen", "whole")
"""Counts that every evaluation of a run has alike."""
INLINE = ("metrics", "usage")
"""Tables of a line whose numbers need no word before them: the objective's own metrics, and the use of the machine."""


def scalars(row: Mapping[str, Any], tokens: int) -> dict[str, float]:
    """The numbers of a line by `KIND/KEY`, as `train/loss` and `validation/loss`; none of a line that only says what happened.

    `tokens`: of an update, from which comes `train/tokens_per_second`.
    """
    if row["kind"] not in MEASURED:
        return {}
    facts = {key: value for key, value in row.items() if key not in (*PLACE, *CONSTANT, *INLINE)}
    facts |= {key: value for table in INLINE for key, value in row.get(table, {}).items()}
    found = named(facts, row["kind"])
    if seconds := row.get("seconds"):
        found[f"{row['kind']}/tokens_per_second"] = tokens / seconds
    return found


def named(facts: Mapping[str, Any], *above: str) -> dict[str, float]:
    """Every number within a table, by its keys with `/` between; no text, truth value or list."""
    return {"/".join([*above, *map(_plain, path)]): value for path, value in _numbers(facts)}


def words(row: Mapping[str, Any]) -> str:
    """What a line says, as text."""
    return ", ".join(f"{key} {_short(value)}" for key, value in row.items() if key not in PLACE)


def flat(settings: Any, path: str = "") -> dict[str, Any]:
    """Nested settings as one table: each number, word or truth value, and each list without tables in it, at its path."""
    if isinstance(settings, Mapping):
        inside = list(settings.items())
    elif isinstance(settings, list) and any(isinstance(each, Mapping) for each in settings):
        inside = list(enumerate(settings))
    else:
        return {path: json.dumps(settings) if isinstance(settings, list) else settings}
    found: dict[str, Any] = {}
    for key, value in inside:
        found |= flat(value, f"{path}.{key}" if path else str(key))
    return found


def _numbers(facts: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], float]]:
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield from (((key, *path), number) for path, number in _numbers(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (key,), value


def _plain(key: str) -> str:
    """A key of letters, digits, `_`, `-` and `.` alone, which every place takes in a name; classes of data may be any text."""
    return re.sub(r"[^\w.-]|^\.+$", "_", key)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
