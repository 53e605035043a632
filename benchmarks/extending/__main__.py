"""`python -m benchmarks.extending`: mistakes in what `anyformer new` writes, and the contract that notices each.

    python -m benchmarks.extending                # all of mistakes.toml, and benchmarks/results/extending.json
    python -m benchmarks.extending --of norm      # those of one thing, printed, which writes no result
    python -m benchmarks.extending --new          # those that the result does not have yet

Every thing is written as a plug-in, once as it is, which must keep all its contracts, and once with each mistake, in a process
of its own. Ends with an error if a right one is refused or a wrong one is not. Beside them stand the files and lines that a
thing takes in a checkout, counted from what `anyformer new ... --package` would write, and the trials by hand of trials.toml.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.extending.mistakes import Mistake, begun, known, names
from benchmarks.extending.taking import all_taken

from anyformer.starting_points import THINGS

RESULT = Path(__file__).parents[1] / "results" / "extending.json"
TRIALS = Path(__file__).with_name("trials.toml")
RIGHT = "as it is written"


@dataclass(frozen=True)
class Found:
    """The contract that notices a mistake, or the right one to be wrong; none, if it is empty."""

    mistake: Mistake
    by: str

    @property
    def fine(self) -> bool:
        return bool(self.by) is (self.mistake.says != RIGHT)


def right(name: str) -> Mistake:
    """What is tried without a mistake."""
    return Mistake(name, RIGHT, "", "", "")


def tried(mistake: Mistake) -> Found:
    """What `anyformer check` says first of a plug-in with a mistake. Loads it: call it in a process of its own."""
    import torch

    from anyformer import load_plugin
    from anyformer.testing.plugin import promises
    from anyformer.testing.promise import ask

    torch.set_num_threads(1)
    thing = THINGS[mistake.of]
    with tempfile.TemporaryDirectory(prefix="extending-") as folder:
        file = Path(folder) / f"{names(thing).snake}.py"
        file.write_text(begun(thing) if mistake.says == RIGHT else mistake.code(), encoding="utf-8")
        try:
            owed = promises(load_plugin(str(file)))
            first = next((finding for finding in ask(owed) if finding.fails), None)
        except Exception as error:  # whatever the plug-in raises while it is loaded
            return Found(mistake, f"it cannot be loaded: {type(error).__name__}")
        return Found(mistake, first.promise.what.replace("_", " ") if first else "")


def outcomes(mistakes: list[Mistake], processes: int = 1) -> Iterator[Found]:
    """What is found of each, in their order."""
    import anyformer.api
    import anyformer.testing.plugin
    import anyformer.training.trainer  # noqa: F401  loaded once, before processes are forked

    for each in mistakes:
        if each.says != RIGHT:
            each.code()  # a place that is not there is told before any work
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap(tried, mistakes, chunksize=1)


def committed() -> dict[Mistake, Found]:
    """The outcomes of the result."""
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["mistakes"] if RESULT.exists() else []
    found = [Found(Mistake(**{name: row[name] for name in row if name != "by"}), row["by"]) for row in rows]
    return {each.mistake: each for each in found}


def every() -> list[Mistake]:
    """Every thing as it is written, and every mistake."""
    return [right(thing.name) for thing in THINGS.values() if thing.alone] + known()


def record(results: dict[Mistake, Found]) -> str:
    """Write the result; gives how many are caught."""
    rows = [results[each] for each in every() if each in results]
    wrong = [each for each in rows if each.mistake.says != RIGHT]
    counts = Counter(each.mistake.of for each in wrong if each.by)
    summary = {
        "caught": sum(counts.values()),
        "of": len(wrong),
        "missed_when_first_made": sum(each.mistake.missed for each in wrong),
        "by_thing": {
            thing: [counts[thing], sum(each.mistake.of == thing for each in wrong)] for thing in THINGS if counts[thing]
        },
    }
    listed = [{**asdict(each.mistake), "by": each.by} for each in rows]
    takes = {name: asdict(each) for name, each in all_taken().items()}
    trials = tomllib.loads(TRIALS.read_text(encoding="utf-8"))["trial"]
    written = json.dumps({**summary, "takes": takes, "trials": trials, "mistakes": listed}, indent=1, ensure_ascii=False)
    RESULT.write_text(written + "\n", encoding="utf-8")
    return f"{summary['caught']} of {summary['of']} are caught"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.extending", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--of", choices=[*THINGS], help="only those of one thing; writes no result")
    parser.add_argument("--new", action="store_true", help="only those that the result does not have yet")
    parser.add_argument("--processes", type=int, default=1, help="how many are tried at a time")
    given = parser.parse_args()
    results = committed() if given.new else {}
    asked = [each for each in every() if each not in results and given.of in (None, each.of)]
    for found in outcomes(asked, given.processes):
        results[found.mistake] = found
        print(f"{'' if found.fine else 'NOT '}{found.mistake.of}: {found.mistake.says}: {found.by or 'all holds'}", flush=True)
        if given.of is None:
            record(results)
    if given.of is None:
        print(record(results))
    sys.exit("".join(f"wrong: {each.mistake.of}: {each.mistake.says}\n" for each in results.values() if not each.fine) or None)


if __name__ == "__main__":
    main()
