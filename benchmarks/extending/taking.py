"""What something new takes in a checkout: how many files, and how many lines of source and of tests."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.extending.mistakes import names

from anyformer.starting_points import ROOMS, THINGS, Thing, in_package

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Takes:
    """Files that are written and that are changed, and the lines that come with them, those of tests apart."""

    new: int
    changed: int
    source: int
    tests: int


def taken(thing: Thing, root: Path = ROOT) -> Takes:
    """What `anyformer new ... --package` would write, of which nothing is written."""
    made = in_package(thing, names(thing), root)
    lines = {name: len(text.splitlines()) for name, text in made.new.items()}
    lines |= {name: added((root / name).read_text(encoding="utf-8"), text) for name, text in made.changed.items()}
    source = sum(count for name, count in lines.items() if name.startswith("src/"))
    return Takes(len(made.new), len(made.changed), source, sum(lines.values()) - source)


def added(before: str, after: str) -> int:
    """Lines of a text that the one before has not, as a diff counts them."""
    changes = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    return sum(stop - start for kind, _, _, start, stop in changes if kind in ("insert", "replace"))


def all_taken() -> dict[str, Takes]:
    """Of everything that `--package` writes."""
    return {name: taken(THINGS[name]) for name in ROOMS}
