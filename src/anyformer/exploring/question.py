"""What a page asks of an architecture: its name, its changes, and the call that is priced, as a query says them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError, did_you_mean
from anyformer.plan import Checkpointing, Plan
from anyformer.precision import Kind

RATE = 2.0
"""Dollars for an hour of one accelerator where none is given: an assumption."""
MOST_CHANGES, MOST_ACCELERATORS = 100, 16
WORDS: Mapping[str, tuple[str, ...]] = {"precision": get_args(Kind), "checkpointing": get_args(Checkpointing)}
"""The words that a key of the query may have."""
Query = Mapping[str, Sequence[str]]
"""The values of every key of a query, in order."""


@dataclass(frozen=True)
class PricedCall:
    """The call that is priced. `length`, `source`: None for the usual one; `on`: names of accelerators; `rate`: dollars for an
    hour of one of them."""

    length: int | None = None
    batch: int = 1
    source: int | None = None
    precision: str = "bf16"
    checkpointing: str = "none"
    on: tuple[str, ...] = ("h100",)
    rate: float = RATE

    @property
    def plan(self) -> Plan:
        return Plan.parse({"precision": self.precision, "checkpointing": self.checkpointing})


@dataclass(frozen=True)
class SheetQuestion:
    """An architecture by its name, with `changes` as `--set` has them, and the call that is priced."""

    of: str
    changes: tuple[str, ...]
    call: PricedCall


KEYS = ("of", "set", "length", "batch", "source", "precision", "checkpointing", "on", "rate")


def question_of(query: Query) -> SheetQuestion:
    """The question of a query; refuses an unknown key, one that is given twice, and a value that is none."""
    check_keys(query, KEYS, several=("set", "on"))
    if not query.get("of"):
        raise UserError("of: name an architecture, as in ?of=gpt2")
    return SheetQuestion(query["of"][0], changes_of(query.get("set", ())), call_of(query))


def changes_of(given: Sequence[str]) -> tuple[str, ...]:
    """The changes of a query, in order; of one path the last counts."""
    if len(given) > MOST_CHANGES:
        raise UserError(f"set: at most {MOST_CHANGES} changes at a time, got {len(given)}")
    return tuple(given)


def call_of(query: Query) -> PricedCall:
    """The call of a query."""
    for name, known in WORDS.items():
        for word in query.get(name, ()):
            if word not in known:
                raise UserError(f"{name}: {word!r} is unknown{did_you_mean(word, known)}")
    on = tuple(dict.fromkeys(name for name in query.get("on", ("h100",)) if name))
    if len(on) > MOST_ACCELERATORS:
        raise UserError(f"on: at most {MOST_ACCELERATORS} accelerators at a time, got {len(on)}")
    return PricedCall(
        length=_whole(query, "length"),
        batch=_whole(query, "batch") or 1,
        source=_whole(query, "source"),
        precision=_only(query, "precision", "bf16"),
        checkpointing=_only(query, "checkpointing", "none"),
        on=tuple(hardware_of(name).name for name in on if name != "here"),
        rate=_rate(_only(query, "rate", str(RATE))),
    )


def check_keys(query: Query, known: Sequence[str], several: Sequence[str] = ()) -> None:
    """Refuse keys that are not known, and those given more than once that are not among `several`."""
    for key, values in query.items():
        if key not in known:
            raise UserError(f"a query has no {key!r}{did_you_mean(key, known)}")
        if len(values) > 1 and key not in several:
            raise UserError(f"{key}: is given {len(values)} times: give it once")


def _only(query: Query, key: str, otherwise: str) -> str:
    return query[key][0] if query.get(key) else otherwise


def _whole(query: Query, key: str) -> int | None:
    text = _only(query, key, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) > 0):
        raise UserError(f"{key}: should be a whole number, 1 or more, got {text[:40]!r}")
    return int(text) if text else None


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 <= rate <= 1e6:
        raise UserError(f"rate: should be dollars for an hour of one accelerator, 0 or more, got {text[:40]!r}")
    return rate
