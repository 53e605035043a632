"""`python -m benchmarks.mutations.by_hand`: mistakes made by hand, each against the tests that notice it. Takes pytest alone.

    python -m benchmarks.mutations.by_hand                  # all of known.toml, and benchmarks/results/by_hand.json
    python -m benchmarks.mutations.by_hand --new            # those that the result does not have yet
    python -m benchmarks.mutations.by_hand --of studies/    # those in files whose path has this in it

Each is put into a copy of the tree, and must make a test fail that passes without it. Ends with an error if any does not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.mutations import trial
from benchmarks.mutations.covering import Test
from benchmarks.mutations.mutant import Mutant

ROOT = Path(__file__).parents[2]
KNOWN = Path(__file__).with_name("known.toml")
RESULT = ROOT / "benchmarks" / "results" / "by_hand.json"
SECONDS = 120.0
"""Processor seconds that the tests of a mistake may take."""


@dataclass(frozen=True)
class Known:
    """A mistake: `says` what it is, `before` and `after` are the line without indentation, and `tests` what notices it now, a
    file of tests or one of them. `room`: the folder of the package that it is in, `kind`: the kind of mistake, in a word or
    two. `missed`: whether no test noticed it when it was first made."""

    says: str
    room: str
    kind: str
    path: str
    before: str
    after: str
    tests: str
    missed: bool = True

    def mutant(self, source: str) -> Mutant:
        """The mistake in a file. Raises `ValueError` if its line is not there once."""
        lines = source.splitlines()
        at = [number for number, line in enumerate(lines) if line.strip() == self.before]
        if len(at) != 1:
            raise ValueError(f"{KNOWN.name}: {self.path} has {len(at)} lines {self.before!r}, and should have one")
        line = lines[at[0]]
        indent = line[: len(line) - len(line.lstrip())]
        return Mutant(self.says, self.path, at[0] + 1, "by hand", line, indent + self.after)


@dataclass(frozen=True)
class Found:
    """What came of a mistake: the test `by` which it was noticed, or how else it ended."""

    mistake: Known
    outcome: str
    by: str

    def row(self) -> dict[str, Any]:
        return {**asdict(self.mistake), "outcome": self.outcome, "by": self.by}

    @staticmethod
    def of(row: Mapping[str, Any]) -> Found:
        return Found(Known(**{each.name: row[each.name] for each in fields(Known)}), row["outcome"], row["by"])


def known(path: Path = KNOWN) -> list[Known]:
    """The mistakes made by hand."""
    return [Known(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]]


def committed() -> dict[Known, Found]:
    """The outcome of each mistake that was tried."""
    rows = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []
    return {found.mistake: found for found in map(Found.of, rows)}


def tried(mistakes: list[Known], root: Path = ROOT) -> Iterator[Found]:
    """What the tests say of each. Raises `RuntimeError` if they fail where nothing is changed."""
    mutants = [each.mutant((root / each.path).read_text(encoding="utf-8")) for each in mistakes]
    with trial.copied(root, Path(tempfile.mkdtemp(prefix="mutations-"))) as tree:
        found = trial.run(tree, whole(*dict.fromkeys(each.tests for each in mistakes)))
        if found.kind != "survived":
            raise RuntimeError(f"nothing was changed, and yet {found.kind} by {found.by}: no outcome would mean anything")
        for each, mutant in zip(mistakes, mutants, strict=True):
            outcome = trial.tried(tree, mutant, whole(each.tests))
            yield Found(each, outcome.kind, outcome.by)


def whole(*tests: str) -> list[Test]:
    """Files of tests, or single ones."""
    return [Test(name, SECONDS, {}) for name in tests]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.mutations.by_hand", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--of", default="", metavar="PART", help="only mistakes in files whose path has this in it")
    parser.add_argument("--new", action="store_true", help="only mistakes that the result does not have yet")
    given = parser.parse_args()
    every, results = known(), committed()
    asked = [each for each in every if given.of in each.path and not (given.new and each in results)]
    for found in tried(asked) if asked else ():
        print(f"{found.mistake.says}: {found.outcome} {found.by}", flush=True)
        results[found.mistake] = found
        rows = [results[each].row() for each in every if each in results]
        RESULT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    alive = [each for each in every if each not in results or results[each].outcome != "killed"]
    print(f"{len(every) - len(alive)} of {len(every)} are caught")
    sys.exit("".join(f"survives: {each.says}, {each.path}\n" for each in alive) or None)


if __name__ == "__main__":
    main()
