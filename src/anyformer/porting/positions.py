"""Where tokens stand, as alternatives to be tried: shares and pairs of rotary positions, rows of tables, sines and cosines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal

from anyformer.describe import get
from anyformer.parts import ALiBi, LearnedPosition, Rotary, SinusoidalPosition
from anyformer.porting.changes import Put, PutAll
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint
from anyformer.porting.keys import LENGTHS, THETAS
from anyformer.porting.looking import rotaries_in

_FRACTIONS = (1.0, 0.5, 0.25)
_LAYOUTS: tuple[Literal["halves", "interleaved"], ...] = ("halves", "interleaved")
_SPACINGS: tuple[Literal["paper", "inclusive"], ...] = ("paper", "inclusive")


def positions(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """Other positions than the family's, the ones that differ most often first."""
    yield from _absolute(fit, table)
    for branch, rotary in dict(rotaries_in(fit.architecture)).items():
        said = [table.get("partial_rotary_factor"), table.get("rotary_pct"), *_shares(table)]
        known = [rotary.fraction, *said, *_FRACTIONS] if branch == "attention" else [rotary.fraction]
        for fraction in dict.fromkeys(float(each) for each in known if isinstance(each, int | float)):
            for pairing in ("halves", "adjacent"):
                if (pairing, fraction) != (rotary.pairing, rotary.fraction):
                    values: dict[str, Any] = {"pairing": pairing} if pairing != rotary.pairing else {}
                    values |= {"fraction": fraction} if fraction != rotary.fraction else {}
                    changes = tuple(Put(f"{branch}.rotary.{field}", value) for field, value in values.items())
                    yield Hint(f"rotary positions of {fraction:g} of every head, pairs {pairing}", changes)


def _absolute(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """The row of a learned table at which positions begin, and the order of sines and cosines."""
    assert fit.architecture is not None
    padding = table.get("pad_token_id")
    firsts = dict.fromkeys([*([padding + 1] if isinstance(padding, int) and padding >= 0 else []), 0, 2, 1])
    stacks = {name: stack.position for name, stack in fit.architecture.stacks.items() if stack.position is not None}
    learned = {name: each for name, each in stacks.items() if isinstance(each, LearnedPosition)}
    for first in firsts:
        made = {
            f"{name}.position": each.but(length=each.length + each.offset - first, offset=first)
            for name, each in learned.items()
            if each.offset != first and each.length + each.offset > first
        }
        if made:
            yield Hint(f"positions begin at row {first} of their table", (PutAll.of(made),))
    if not stacks and not dict(rotaries_in(fit.architecture)):  # no tensor says where a token stands, so a formula may
        tables = [table, *(value for value in table.values() if isinstance(value, Mapping))]
        said = (each[key] for each in tables for key in THETAS if isinstance(each.get(key), int | float))
        theta = float(next(said, 10_000.0))
        for pairing in ("halves", "adjacent"):
            rotary = Rotary(theta=theta, pairing=pairing)
            yield Hint(f"rotary positions, theta {theta:g}, pairs {pairing}", (Put("attention.rotary", rotary),))
        yield Hint("slopes of distances (ALiBi)", (Put("attention.score_bias", ALiBi()),))
    waved = [name for name, each in stacks.items() if isinstance(each, SinusoidalPosition)]
    if not stacks and not dict(rotaries_in(fit.architecture)):
        waved = list(fit.architecture.stacks)
    length = next((table[key] for key in LENGTHS if isinstance(table.get(key), int)), None)
    for layout, spacing, first in product(_LAYOUTS, _SPACINGS, firsts) if waved else ():
        for most in dict.fromkeys((length, None)):
            part = SinusoidalPosition(layout=layout, spacing=spacing, offset=first, length=most)
            sinusoids = {f"{name}.position": part for name in waved}
            if any(get(fit.architecture, path) != part for path in sinusoids):
                yield Hint(f"sinusoids in {layout}, spacing {spacing}, from {first}", (PutAll.of(sinusoids),))


def _shares(table: Mapping[str, Any]) -> Iterator[Any]:
    """Shares of a head in the tables of rotary settings."""
    for value in table.values():
        if isinstance(value, Mapping):
            yield value.get("partial_rotary_factor")
