"""The score of a campaign, and what survived."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutations.mutant import Mutant
from benchmarks.mutations.trial import Outcome

KILLED = ("killed", "time")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Equivalent:
    """A mutant that changes nothing which anybody can see, and why: `before` and `after` without indentation."""

    path: str
    before: str
    after: str
    reason: str

    def names(self, mutant: Mutant) -> bool:
        """Whether it is this mutant."""
        return (self.path, self.before, self.after) == (mutant.path, mutant.before.strip(), mutant.after.strip())


def equivalents(path: Path = EQUIVALENT) -> list[Equivalent]:
    """Those that somebody judged."""
    return [Equivalent(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])]


@dataclass(frozen=True)
class Score:
    """Mutants `sampled`; of them `tried`, judged `equivalent`, and `killed` among the others."""

    sampled: int
    tried: int
    equivalent: int
    killed: int

    @property
    def share(self) -> float:
        """killed / (tried - equivalent); nan before any."""
        counted = self.tried - self.equivalent
        return self.killed / counted if counted else float("nan")

    def data(self) -> dict[str, Any]:
        """The figures by name."""
        return {**vars(self), "score": round(self.share, 4)}

    def __str__(self) -> str:
        return (
            f"{self.tried:,} of {self.sampled:,} mutants tried: {self.killed:,} killed, {self.equivalent:,} equivalent, "
            f"{self.tried - self.equivalent - self.killed:,} survive: score {self.share:.1%}"
        )


def is_equivalent(mutant: Mutant, known: Iterable[Equivalent]) -> bool:
    """Whether somebody judged that it changes nothing."""
    return any(each.names(mutant) for each in known)


def scored(mutants: Iterable[Mutant], outcomes: Mapping[str, Outcome], known: list[Equivalent]) -> dict[str, Score]:
    """The score of each room, and of all under `all`; a mutant that a test kills counts as killed, whatever was judged."""
    mutants = list(mutants)
    rooms = {mutant.path.split("/")[2] for mutant in mutants}
    return {
        room: _score([m for m in mutants if room in ("all", m.path.split("/")[2])], outcomes, known)
        for room in ("all", *sorted(rooms))
    }


def _score(mutants: list[Mutant], outcomes: Mapping[str, Outcome], known: list[Equivalent]) -> Score:
    tried = [mutant for mutant in mutants if mutant.key in outcomes]
    alive = [mutant for mutant in tried if outcomes[mutant.key].kind not in KILLED]
    equivalent = sum(is_equivalent(mutant, known) for mutant in alive)
    return Score(len(mutants), len(tried), equivalent, len(tried) - len(alive))


def survivors(mutants: Iterable[Mutant], outcomes: Mapping[str, Outcome], known: list[Equivalent]) -> list[Mutant]:
    """Those that no test kills and nobody judged equivalent."""
    return [
        mutant
        for mutant in mutants
        if mutant.key in outcomes and outcomes[mutant.key].kind not in KILLED and not is_equivalent(mutant, known)
    ]


def diff(mutant: Mutant, source: str) -> str:
    """The change, as a diff."""
    old, new = source.splitlines(), mutant.applied(source).splitlines()
    return "\n".join(difflib.unified_diff(old, new, mutant.path, mutant.path, n=2, lineterm=""))
