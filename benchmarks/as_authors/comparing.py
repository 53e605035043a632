"""What both sides said of a family, as one row of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CLOSE = 1e-4
"""Relative difference of losses and chances from which on they are not the same."""
Found = Mapping[str, Any]


def compared(ours: Found, theirs: Found) -> dict[str, Any]:
    """Each check: how many values were compared, the largest relative difference of numbers, and what differs first."""
    for name, side in {"our side": ours, "their tools": theirs}.items():
        if "failed" in side:
            return {name: {"compared": 0, "difference": 0.0, "differs": side["failed"]}}
    return dict(_checks(ours, theirs))


def equal(check: Mapping[str, Any]) -> bool:
    """Whether a check found the same, and found something."""
    return check["differs"] is None and check["difference"] <= CLOSE and check["compared"] > 0


def _checks(ours: Found, theirs: Found) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, texts in theirs.get("generate", {}).items():
        yield name, _exact(ours["generate"][name], texts)
    for name in ("documents", "choices"):
        if name in theirs:
            yield name, _near(_flat(ours[name]), _flat(theirs[name]))
    if "fill" in theirs:
        own, other = ([each for text in side["fill"] for place in text for each in place] for side in (ours, theirs))
        names = _exact([number for number, _ in own], [number for number, _ in other])
        yield "hidden words", names | {"difference": _near([x for _, x in own], [x for _, x in other])["difference"]}
    for name, trained in theirs["fine_tuning"].items():
        own = ours["fine_tuning"][name]
        rows = _exact(sorted(own["rows"]), sorted(trained["rows"])) if "rows" in trained else {"differs": None}
        losses = _near(own["losses"], trained["losses"])
        yield name, losses | {"differs": rows["differs"] or losses["differs"]}


def _exact(ours: list[Any], theirs: list[Any]) -> dict[str, Any]:
    pairs = [] if len(ours) != len(theirs) else list(zip(ours, theirs, strict=True))
    differs = next(({"ours": own, "theirs": other} for own, other in pairs if own != other), None)
    if len(ours) != len(theirs):
        differs = {"ours": len(ours), "theirs": len(theirs)}
    return {"compared": len(theirs), "difference": 0.0, "differs": differs}


def _near(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    if len(ours) != len(theirs):
        return _exact(ours, theirs)
    far = [abs(own - other) / max(abs(other), 1e-9) for own, other in zip(ours, theirs, strict=True)]
    worst = max(range(len(far)), key=far.__getitem__, default=None)
    differs = None if worst is None or far[worst] <= CLOSE else {"ours": ours[worst], "theirs": theirs[worst]}
    return {"compared": len(theirs), "difference": max(far, default=0.0), "differs": differs}


def _flat(values: list[Any]) -> list[float]:
    return [each for value in values for each in (_flat(value) if isinstance(value, list) else [value])]
