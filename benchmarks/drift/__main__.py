"""The command: `python -m benchmarks.drift`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from benchmarks.drift.sweep import VALUES, Job, bad, lines, listed, sweep  # noqa: E402
from benchmarks.drift.table import RESULT, write  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: E402

TRIALS = Path("build") / "drift.jsonl"


def main() -> None:
    """Sweep, then write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drift", description=__doc__)
    parser.add_argument("--types", nargs="*", default=[], help="model types; by default all")
    parser.add_argument("--keys", nargs="*", default=[], help="keys; by default all")
    parser.add_argument("--of", choices=["untested", "others", "all"], default="all", help="keys that tests do not move, or do")
    parser.add_argument("--values", type=int, choices=range(1, VALUES + 1), default=VALUES, help="of each key, at least")
    parser.add_argument("--redo", nargs="*", default=[], help="outcomes that are tried again, such as drift or crash")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trials", type=Path, default=TRIALS, help="where each value is remembered")
    parser.add_argument("--renew", action="store_true", help="list the pairs anew")
    parser.add_argument("--list", action="store_true", help="print the pairs and try nothing")
    parser.add_argument("--quick", action="store_true", help="only what is known without a model")
    parser.add_argument("--no-table", action="store_true", help=f"leave {RESULT.name} as it is")
    given = parser.parse_args()
    pairs = given.trials.with_name(f"{given.trials.stem}-pairs.json")
    if given.renew:
        pairs.unlink(missing_ok=True)
    todo = listed(pairs, given.types, given.keys, given.of, given.values)
    if given.list:
        for job in todo:
            print(job.base, *(".".join(path) for path in job.keys))
        return
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("drift", total=sum(len(job.keys) for job in todo))

        def tell(job: Job | None, counts: Counter[str]) -> None:
            said = ", ".join(f"{count} {ended}" for ended, count in counts.most_common())
            progress.update(bar, description=said, advance=len(job.keys) if job else 0)

        sweep(todo, given.trials, given.redo, given.jobs, tell, given.quick)
    for tried in bad(lines(given.trials).values()):
        console.print(f"{tried.ended}: {tried.base} {tried.key} {tried.value[:80]}: {tried.why[:160]}", markup=False)
    if not given.no_table:
        write([*lines(given.trials).values()], {of: listed(pairs, (), (), of) for of in ("untested", "others")})


if __name__ == "__main__":
    main()
