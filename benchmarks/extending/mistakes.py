"""Deliberate mistakes in the files that `anyformer new` writes, as data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from anyformer.starting_points import THINGS, Spellings, Thing
from anyformer.starting_points.templates import piece

MISTAKES = Path(__file__).with_name("mistakes.toml")


@dataclass(frozen=True)
class Mistake:
    """A mistake in the plug-in of a thing: `says` what it is, `before` stands once in the file, and `after` in its place.

    `kind`: the kind of mistake, in a word or two. `missed`: whether nothing noticed it when it was first made. `imports`: what
    its code needs besides.
    """

    of: str
    says: str
    kind: str
    before: str
    after: str
    missed: bool = False
    imports: str = ""

    def code(self) -> str:
        """The plug-in with the mistake. Raises `ValueError` if its place is not there once."""
        right = begun(THINGS[self.of])
        if (count := right.count(self.before)) != 1:
            raise ValueError(f"{MISTAKES.name}: {self.says}: {count} places of {self.of} have {self.before!r}, and one should")
        given = f"{self.imports}\nfrom typing import" if self.imports else "from typing import"
        return right.replace(self.before, self.after).replace("from typing import", given, 1)


def names(thing: Thing) -> Spellings:
    """The names of one of a thing."""
    return Spellings.of(f"tried_{thing.name}", thing.suffix)


def begun(thing: Thing) -> str:
    """The plug-in of a thing as it is written."""
    return piece(thing.name, "plugin", names(thing), house=False)


def known(path: Path = MISTAKES) -> list[Mistake]:
    """All mistakes."""
    return [Mistake(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mistake"]]
