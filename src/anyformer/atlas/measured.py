"""What the project's studies measured and what became of the claims of lecture notes, as `docs/make_atlas.py` wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class MeasuredFinding:
    """What papers found, as a relation of two arms of a study, and what the study says of it here.

    `length`: the positions at which the arms were compared, None for the `trained` ones.
    """

    question: str
    papers: str
    said: str
    study: str
    arm: str
    than: str
    length: int | None
    trained: int
    metric: str
    arm_mean: str
    than_mean: str
    difference: str
    here: str

    @property
    def sentence(self) -> str:
        """The finding, its figures, and whether it holds here."""
        where = "" if self.length is None else f" at {self.length:,} positions, trained with {self.trained:,}"
        arms = f"{self.metric} {self.arm_mean} ({_name(self.arm)}) against {self.than_mean} ({_name(self.than)}){where}"
        return f"{_sentence(self.said)}: {arms}{f', {self.difference}' if self.difference else ''}. {_sentence(self.here)}."


@dataclass(frozen=True)
class ArmLengths:
    """The mean of a study's metric at each of its lengths, over its seeds."""

    name: str
    means: tuple[float, ...]


@dataclass(frozen=True)
class MeasuredStudy:
    """The budget of a study; with `lengths`, the first of which is the trained one, the means of its arms there."""

    name: str
    title: str
    metric: str
    better: str
    parameters: int
    updates: int
    tokens: int
    seeds: int
    trained: int
    lengths: tuple[int, ...] = ()
    arms: tuple[ArmLengths, ...] = ()
    note: str = ""
    """What a reader should know of the question that it answers."""

    @property
    def sentence(self) -> str:
        """The budget in words."""
        sizes = f"{self.parameters:,} parameters, {self.updates:,} updates, {self.tokens:,} tokens"
        return f"{self.title} {sizes}, {self.seeds} seeds."

    @property
    def answer(self) -> str:
        """Which arms hold beyond the trained length: the metric at both, the best beyond first, and its change."""
        lower = self.better == "lower"
        order = sorted(self.arms, key=lambda arm: arm.means[-1] if lower else -arm.means[-1])
        told = ", ".join(
            f"{_name(arm.name)} from {arm.means[0]:.2f} to {arm.means[-1]:.2f} ({arm.means[-1] - arm.means[0]:+.2f})"
            for arm in order
        )
        last = self.lengths[-1]
        return (
            f"From the trained {self.trained:,} positions to {last:,}, {last / self.trained:g} times as many, the "
            f"{self.metric} goes, the best at {last:,} first: {told}."
        )


@dataclass(frozen=True)
class StudiedArm:
    """An arm of a study, with what it has and not all others have: names of `mechanisms`, and classes of `parts`."""

    study: str
    name: str
    mechanisms: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class SharedByArms:
    """What all arms of a study have: names of `mechanisms`, and classes of `parts`; `arms`: how many they are."""

    study: str
    arms: int
    mechanisms: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class ArmPair:
    """An arm of a study beside its base, and what the report says of both: `worse: accuracy -0.97 (-0.98 to -0.96)`."""

    study: str
    arm: str
    than: str
    here: str


@dataclass(frozen=True)
class NotesClaim:
    """A claim of lecture notes, how it was tested, the outcome and the verdict; see docs/reference/claims.md."""

    name: str
    said: str
    source: str
    how: str
    typed: str
    outcome: str
    verdict: str

    @property
    def sentence(self) -> str:
        """The claim and what became of it."""
        return f"{self.said} {_sentence(self.verdict)} ({self.how}): {self.outcome}."


@cache
def _data() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


@cache
def findings() -> tuple[MeasuredFinding, ...]:
    """Every finding, in the order of the questions."""
    return tuple(MeasuredFinding(**each) for each in _data()["findings"])


@cache
def studies() -> Mapping[str, MeasuredStudy]:
    """Every study by its name."""
    made = (
        MeasuredStudy(
            **each
            | {"lengths": tuple(each["lengths"]), "arms": tuple(ArmLengths(a["name"], tuple(a["means"])) for a in each["arms"])}
        )
        for each in _data()["studies"]
    )
    return {each.name: each for each in made}


@cache
def studied_arms() -> Mapping[str, tuple[StudiedArm, ...]]:
    """The arms of every study by its name."""
    found: dict[str, tuple[StudiedArm, ...]] = {}
    for each in _data()["arms"]:
        own = StudiedArm(**each | {"mechanisms": tuple(each["mechanisms"]), "parts": tuple(each["parts"])})
        found[own.study] = (*found.get(own.study, ()), own)
    return found


@cache
def shared_by_arms() -> tuple[SharedByArms, ...]:
    """What all arms have, of every study."""
    rows = _data()["shared"]
    return tuple(SharedByArms(**each | {key: tuple(each[key]) for key in ("mechanisms", "parts")}) for each in rows)


@cache
def arm_pairs() -> tuple[ArmPair, ...]:
    """Every arm of every study beside the base of its study."""
    return tuple(ArmPair(**each) for each in _data()["pairs"])


@cache
def notes_claims() -> Mapping[str, NotesClaim]:
    """Every claim by its name."""
    return {each["name"]: NotesClaim(**each) for each in _data()["claims"]}


def _name(arm: str) -> str:
    return arm.replace("_", " ")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
