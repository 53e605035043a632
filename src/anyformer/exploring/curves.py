"""Curves of runs as few points: means of neighbouring updates with their least and greatest, and bands over runs that differ in
their seed alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

POINTS = 300
"""Points of a curve at most, each the mean of as many updates."""
Row = Mapping[str, Any]
SERIES: Mapping[str, Callable[[Row], Any]] = {
    "loss": lambda row: row.get("loss"),
    "gradient_norm": lambda row: row.get("gradient_norm"),
    "learning_rate": lambda row: row.get("learning_rate"),
    "seconds": lambda row: row.get("seconds"),
    "tokens_per_second": lambda row: _of(row, "usage").get("tokens_per_second_per_device"),
    "mfu": lambda row: _of(row, "usage").get("mfu"),
    "memory": lambda row: _of(row, "usage").get("memory"),
}
"""What a line of an update says, by the name of its curve."""


def curves(updates: Sequence[Row]) -> dict[str, Any]:
    """Every curve of a run that has any number: `step`, `tokens`, `mean`, `low`, `high`, a list each."""
    found = {name: curve(updates, read) for name, read in SERIES.items()}
    return {name: points for name, points in found.items() if points["step"]}


def curve(updates: Sequence[Row], read: Callable[[Row], Any]) -> dict[str, list[Any]]:
    """One curve: the means of neighbouring updates, with the least and the greatest of these."""
    known = [(row["step"], row.get("tokens"), value) for row in updates if _is_number(value := read(row))]
    share = -(-len(known) // POINTS) or 1
    points: dict[str, list[Any]] = {"step": [], "tokens": [], "mean": [], "low": [], "high": []}
    for at in range(0, len(known), share):
        some = known[at : at + share]
        values = [value for _, _, value in some]
        point = (some[-1][0], some[-1][1], sum(values) / len(values), min(values), max(values))
        for name, number in zip(points, point, strict=True):
            points[name].append(number)
    return points


def of_experts(updates: Sequence[Row], evaluations: Sequence[Row]) -> dict[str, Any]:
    """Per layer with experts: the largest share of one and the share of tokens dropped at the updates, and all shares at the
    evaluations."""
    layers = dict.fromkeys(path for row in (*updates, *evaluations) for path in _of(row, "experts"))
    found = {}
    for path in layers:
        shares = [(row["step"], load["shares"]) for row in evaluations if "shares" in (load := _load(row, path))]
        found[path] = {
            "largest": curve(updates, _reading(path, "largest")),
            "dropped": curve(updates, _reading(path, "dropped")),
            "step": [step for step, _ in shares],
            "shares": [own for _, own in shares],
        }
    return found


def bands(runs: Mapping[str, Sequence[Row]], settings: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A band per set of runs that differ in their seed alone: mean, least and greatest at every step that all have."""
    groups: dict[str, list[str]] = {}
    for name, told in settings.items():
        alike = {key: value for key, value in told.items() if key != "seed"}
        groups.setdefault(json.dumps(alike, sort_keys=True, default=str), []).append(name)
    found = []
    for names in groups.values():
        if len(names) > 1:
            series = {name: _band([runs[run] for run in names], read) for name, read in SERIES.items()}
            found.append({"runs": names, "series": {name: points for name, points in series.items() if points["step"]}})
    return found


def _band(runs: Sequence[Sequence[Row]], read: Callable[[Row], Any]) -> dict[str, list[Any]]:
    numbers = [{row["step"]: value for row in rows if _is_number(value := read(row))} for rows in runs]
    common = sorted(set(numbers[0]).intersection(*numbers[1:]))
    share = -(-len(common) // POINTS) or 1
    points: dict[str, list[Any]] = {"step": [], "mean": [], "low": [], "high": []}
    for at in range(0, len(common), share):
        steps = common[at : at + share]
        means = [sum(own[step] for step in steps) / len(steps) for own in numbers]
        for name, number in zip(points, (steps[-1], sum(means) / len(means), min(means), max(means)), strict=True):
            points[name].append(number)
    return points


def _reading(path: str, key: str) -> Callable[[Row], Any]:
    return lambda row: _load(row, path).get(key)


def _load(row: Row, path: str) -> Mapping[str, Any]:
    return _of(_of(row, "experts"), path)


def _of(row: Row, key: str) -> Mapping[str, Any]:
    """A table in a line; empty where the line, of another version or damaged, has none."""
    found = row.get(key)
    return found if isinstance(found, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
