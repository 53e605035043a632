"""`python -m benchmarks.mutations`: 600 one-line mutants of the package, each against the tests that run its line.

    python -m benchmarks.mutations                 # goes on where it stopped; Ctrl-C at any time
    python -m benchmarks.mutations --survivors     # diffs of what survives and the score, without any trial
    python -m benchmarks.mutations --again         # tries what survived once more, after new tests
    python -m benchmarks.mutations --again --of planning/ --tests tests/planning/test_layout.py    # asks these tests alone
    python -m benchmarks.mutations.by_hand         # the mistakes of known.toml

First it records which test runs which line, then it tries the mutants in a copy of the tree. The score is killed / (tried -
equivalent); the mutants judged equivalent stand in equivalent.toml with the reason. A mutant counts as killed when a test
fails, or when the tests take more than five times their processor time. Only the tests of the rooms below are asked, and of
them no more than `--seconds` for each mutant, so that the whole suite may kill more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.mutations import covering, report, trial
from benchmarks.mutations.by_hand import whole
from benchmarks.mutations.mutant import Mutant
from benchmarks.mutations.mutants import sample

ROOT = Path(__file__).parents[2]
NAMES = ("training", "objectives", "data", "checkpoint", "planning", "generation")
ROOMS = tuple(f"src/anyformer/{room}" for room in NAMES)
OTHERS = ("cli", "evaluation", "faults")
"""Rooms of tests that are asked of every mutant, beside those of its own room."""
SEVERAL = ("src/anyformer/training/parallel/", "src/anyformer/planning/collectives.py")
SEVERAL_TESTS = "tests/parallel"
"""Code that runs in several processes, and the tests that start them: coverage does not see these, so all are asked."""
COUNT, SEED = 600, 0
STATE = ROOT / "build" / "mutations"
TRIED = ROOT / "benchmarks" / "results" / "mutations.jsonl"
SCORE = ROOT / "benchmarks" / "results" / "mutations.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.mutations", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of tests for each mutant (default: 60)")
    parser.add_argument("--count", type=int, default=COUNT, help=f"mutants (default: {COUNT})")
    parser.add_argument("--rooms", nargs="+", choices=NAMES, default=NAMES, metavar="ROOM", help="rooms to try (default: all)")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--of", default="", metavar="PART", help="only mutants of files whose path has this in it")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="ask these files of tests, not those that run the line")
    parser.add_argument("--survivors", action="store_true", help="show what survives, write the score, and end")
    given = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    with progress(console) as bar:
        mutants = drawn(given.count, bar)
    outcomes, known = read(TRIED), report.equivalents()
    if not given.survivors:
        left = [mutant for mutant in mutants if mutant.key not in outcomes]
        if given.again:
            left = report.survivors(mutants, outcomes, known)
        left = [mutant for mutant in left if mutant.path.split("/")[2] in given.rooms and given.of in mutant.path]
        try:
            attempt(left, (*given.rooms, *OTHERS), given.jobs, given.seconds, given.tests, console)
        except KeyboardInterrupt:
            console.print("stopped; the same command goes on")
        outcomes = read(TRIED)
    seal(mutants, outcomes, known)
    for mutant in report.survivors(mutants, outcomes, known):
        print(report.diff(mutant, (ROOT / mutant.path).read_text(encoding="utf-8")), end="\n\n")
    for room, score in report.scored(mutants, outcomes, known).items():
        print(f"{room:12} {score}")


def drawn(count: int, bar: Progress) -> list[Mutant]:
    """The sample; what was found in each file is kept until the file changes."""
    kept = STATE / "sample.json"
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    task = bar.add_task("finding mutants", total=None)
    mutants = sample(ROOT, ROOMS, count, SEED, lambda done: bar.update(task, completed=done), known)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(known), encoding="utf-8")
    return mutants


def attempt(
    mutants: list[Mutant], rooms: tuple[str, ...], jobs: int, seconds: float, tests: list[str] | None, console: Console
) -> None:
    """Record what is not recorded yet, then try each mutant and add a line to the results. `tests`: ask these alone."""
    with ExitStack() as stack:
        bar = stack.enter_context(progress(console))
        trees: SimpleQueue[Path] = SimpleQueue()
        for _ in range(jobs):
            trees.put(stack.enter_context(trial.copied(ROOT, Path(tempfile.mkdtemp(prefix="mutations-")))))

        @contextmanager
        def tree() -> Iterator[Path]:
            free = trees.get()
            try:
                yield free
            finally:
                shutil.rmtree(free.parent / "temporary", ignore_errors=True)
                trees.put(free)

        def recording(file: str) -> None:
            with tree() as place:
                found = trial.recorded(place, file, ROOMS)
            if found is not None:
                with lock:
                    recorded[file] = found
                    covering.write(STATE / "covering.json", recorded)
            bar.advance(first)

        def asked(mutant: Mutant) -> list[list[covering.Test]]:
            """The tests to ask, group after group: most mutants die by those of their own room, whose imports take less."""
            if tests is not None:
                return [whole(*tests)]
            inside = covering.in_function((ROOT / mutant.path).read_text(encoding="utf-8"), mutant.line)
            known = [recorded[file] for file in files if file in recorded]
            found = covering.chosen(known, mutant.path, mutant.line if inside else None, seconds)
            own = [test for test in found if test.name.startswith(f"tests/{mutant.path.split('/')[2]}/")]
            return [own, [test for test in found if test not in own], several if mutant.path.startswith(SEVERAL) else []]

        def trying(mutant: Mutant) -> None:
            groups = asked(mutant)
            with tree() as place:
                outcome = trial.tried(place, mutant, groups[0])
                for more in groups[1:]:
                    if more and outcome.kind not in report.KILLED:
                        outcome = trial.tried(place, mutant, more)
            row = {**asdict(mutant), "outcome": outcome.kind, "by": outcome.by, "tests": sum(map(len, groups))}
            with lock, TRIED.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            bar.advance(second)

        found = [file for room in rooms for file in (ROOT / "tests" / room).rglob("test_*.py")]
        files = sorted(file.relative_to(ROOT).as_posix() for file in found)
        paths = {mutant.path for mutant in mutants}
        several = whole(*sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / SEVERAL_TESTS).glob("test_*.py")))
        recorded = covering.read(STATE / "covering.json")
        stale = [file for file in files if file not in recorded or not recorded[file].holds(ROOT, {file, *paths})]
        left = stale if tests is None else []
        first, second = bar.add_task("recording tests", total=len(left)), bar.add_task("trying mutants", total=len(mutants))
        pool, lock = ThreadPoolExecutor(jobs), Lock()
        stack.callback(pool.shutdown, cancel_futures=True)
        list(pool.map(recording, left))
        bar.refresh()
        with tree() as place:
            known = [recorded[file].tests for file in files if file in recorded]
            shortest = [min(each, key=lambda test: test.seconds) for each in known if each]
            check_unchanged(place, shortest if tests is None else whole(*tests))
        list(pool.map(trying, mutants))


def check_unchanged(tree: Path, tests: list[covering.Test]) -> None:
    """Raise `RuntimeError` if one of these tests fails when nothing is changed and they are run as those of mutants are."""
    found = trial.run(tree, tests)
    if found.kind != "survived":
        raise RuntimeError(f"nothing was changed, and yet {found.kind} by {found.by}: no outcome would mean anything")


def read(path: Path) -> dict[str, trial.Outcome]:
    """The latest outcome of each mutant; a line that a kill truncated is passed over."""
    outcomes: dict[str, trial.Outcome] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        outcomes[row["key"]] = trial.Outcome(row["outcome"], row["by"])
    return outcomes


def seal(mutants: list[Mutant], outcomes: dict[str, trial.Outcome], known: list[report.Equivalent]) -> None:
    """Write the score."""
    scores = {room: score.data() for room, score in report.scored(mutants, outcomes, known).items()}
    data = {"seed": SEED, "python": platform.python_version(), "rooms": scores}
    SCORE.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def progress(console: Console) -> Progress:
    """A bar for each part of the work."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)


if __name__ == "__main__":
    main()
