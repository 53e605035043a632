"""The columns of `anyformer list`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anyformer.cli.aligned import Column

if TYPE_CHECKING:
    from anyformer.catalogue.row import Listed

GUESS = "~"
"""Stands before a number that is not exact, since something of the architecture is not public or not described."""
NAME: Column[Listed] = ("name", lambda entry: entry.name)
YEAR: Column[Listed] = ("year", lambda entry: str(entry.year))
MADE_OF: tuple[Column[Listed], ...] = (
    ("attention", lambda entry: entry.columns.attention),
    ("position", lambda entry: entry.columns.position),
    ("activation", lambda entry: entry.columns.activation),
    ("norm", lambda entry: f"{entry.columns.placement} {entry.columns.norm}"),
    ("experts", lambda entry: f"{entry.columns.chosen}/{entry.columns.experts}" if entry.columns.experts else ""),
    ("window", lambda entry: entry.columns.window),
    ("shape", lambda entry: entry.columns.shape),
    ("wiring", lambda entry: "parallel" if entry.columns.wiring == "parallel" else ""),
    ("stability", lambda entry: ", ".join((*entry.columns.stability, *entry.training))),
)
SHORT: tuple[Column[Listed], ...] = (
    NAME,
    YEAR,
    ("params", lambda entry: _count(entry, entry.columns.parameters, short)),
    ("active", lambda entry: _active(entry, short)),
    *MADE_OF,
)
"""The most important first."""
ALL: tuple[Column[Listed], ...] = (
    NAME,
    YEAR,
    ("organisation", lambda entry: entry.organisation),
    ("parameters", lambda entry: _count(entry, entry.columns.parameters, "{:,}".format)),
    ("active", lambda entry: _active(entry, "{:,}".format)),
    *MADE_OF,
)
NUMBERS = ("params", "parameters", "active")


def short(number: int) -> str:
    """Four digits of a count: `8.03 B`."""
    unit, scale = next((pair for pair in (("T", 1e12), ("B", 1e9), ("M", 1e6)) if number >= pair[1]), ("k", 1e3))
    return f"{number / scale:.4g} {unit}"


def _count(entry: Listed, number: int, written: Callable[[int], str]) -> str:
    return f"{GUESS if entry.stand_in else ''}{written(number)}"


def _active(entry: Listed, written: Callable[[int], str]) -> str:
    same = entry.columns.active == entry.columns.parameters
    return "" if same else _count(entry, entry.columns.active, written)
