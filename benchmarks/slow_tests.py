"""Run the slow tests file by file, and remember what every file said: the whole takes hours, and one sitting need not last.

    python -m benchmarks.slow_tests                # the files that have not passed at this version of them
    python -m benchmarks.slow_tests --minutes 60   # begin no file after an hour
    python -m benchmarks.slow_tests --sample 100   # of every file that has more cases, 100 that are drawn with a seed
    python -m benchmarks.slow_tests --report       # run nothing: the line of all files
    python -m benchmarks.slow_tests tests/parts    # these files and directories alone, in this order

A file is run again where it failed, where it changed since, or where a sample of it was run and more is asked for. Every line
names the commit that it ran on, for the package may have changed under it, and of a sample how many cases of how many. Writes
benchmarks/results/slow-tests.json after every file; `make test-slow` runs the same tests at once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.compare import RESULTS

RESULT = RESULTS / "slow-tests.json"
ROOT = Path(__file__).parents[1]
WORDS = (sys.executable, "-m", "pytest", "-m", "slow", "-p", "no:cacheprovider")


def files() -> dict[str, int]:
    """Every file with slow tests, and how many; few first."""
    said = subprocess.run([*WORDS, "-q", "--collect-only"], capture_output=True, text=True, cwd=ROOT).stdout
    found = {name: int(count) for name, count in re.findall(r"^(tests/\S+\.py): (\d+)$", said, re.MULTILINE)}
    if not found:
        raise SystemExit(f"no slow test was found:\n{said[-2000:]}")
    return dict(sorted(found.items(), key=lambda pair: pair[1]))


def among(asked: dict[str, int], places: list[str]) -> dict[str, int]:
    """Of files those that are named, or lie in a directory that is; all where none is."""
    for place in places:
        if not any(Path(file).is_relative_to(place) for file in asked):
            raise SystemExit(f"{place} has no slow test: name files and directories from the checkout's root, as tests/parts")
    chosen = {file: asked[file] for place in places for file in asked if Path(file).is_relative_to(place)}
    return chosen if places else asked


def version(file: str) -> str:
    """The digest of a file of tests."""
    return sha256((ROOT / file).read_bytes()).hexdigest()[:12]


def commit() -> str:
    """The commit of the checkout, and a plus where files are changed but this ledger's."""
    ledger = f":!{RESULT.relative_to(ROOT)}"
    told = [["rev-parse", "--short=12", "HEAD"], ["diff", "--name-only", "HEAD", "--", ".", ledger]]
    named, changed = (
        subprocess.run(["git", *words], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip() for words in told
    )
    return named + "+" * bool(changed)


def cases(file: str) -> list[str]:
    """The ids of a file's slow tests."""
    said = subprocess.run([*WORDS, "--collect-only", file], capture_output=True, text=True, cwd=ROOT).stdout
    return [line for line in said.splitlines() if line.startswith(f"{file}::")]


def drawn(every: list[str], count: int, seed: str) -> list[str]:
    """So many of them, in their order."""
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))
    return [every[number] for number in sorted(chosen)]


def ran(file: str, count: int, sample: int | None, jobs: int) -> dict[str, Any]:
    """What a file's slow tests said: how many of every outcome, and the tests that failed."""
    began = time.perf_counter()
    part = [file] if sample is None or sample >= count else drawn(cases(file), sample, file)
    words = [*WORDS, "-rfE", *(("-n", str(jobs)) if jobs > 1 else ()), *part]
    said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
    outcomes = {outcome: int(count) for count, outcome in re.findall(r"(\d+) (passed|failed|skipped|xfailed|error)", said)}
    if not outcomes:
        raise SystemExit(f"{file}: pytest ended without a summary:\n{said[-4000:]}")
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", said, re.MULTILINE)
    return {
        "version": version(file),
        "commit": commit(),
        "date": date.today().isoformat(),
        **({"sample": sample, "of": count} if part != [file] else {}),
        **outcomes,
        **({"which": failed} if failed else {}),
        "seconds": round(time.perf_counter() - began),
    }


def passed(line: dict[str, Any] | None, file: str, asked: int) -> bool:
    """Whether a file passed as it is now, or so many of its cases."""
    if line is None or line["version"] != version(file) or line.get("failed", 0) + line.get("error", 0):
        return False
    return bool(line.get("sample", asked) >= asked)


def summary(record: dict[str, dict[str, Any]], asked: dict[str, int]) -> dict[str, Any]:
    """One line of all files."""
    lines = [record[file] for file in asked if file in record]
    outcomes = Counter[str]()
    for line in lines:
        outcomes.update({name: line[name] for name in ("passed", "failed", "skipped", "error") if name in line})
    return {
        "files": len(lines), "of": len(asked), "by a sample": sum("sample" in line for line in lines),
        "cases": sum(asked.values()), **outcomes,
        "seconds": sum(line["seconds"] for line in lines),
        "commits": sorted({line["commit"] for line in lines}),
    }  # fmt: skip


def main() -> None:
    """Run what did not pass yet, and keep every file's line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files of tests and directories; otherwise all")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no file after so many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the tests of a file")
    parser.add_argument("--sample", type=int, help="run no more than so many cases of a file, drawn with a seed")
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    record = json.loads(RESULT.read_text())["by file"] if RESULT.exists() else {}
    asked, began = files(), time.perf_counter()
    for number, (file, count) in enumerate(among(asked, arguments.files).items(), start=1):
        if arguments.report or passed(record.get(file), file, min(count, arguments.sample or count)):
            continue
        if time.perf_counter() - began > arguments.minutes * 60:
            break
        print(f"{number} of {len(asked)}: {file}, {count} cases", file=sys.stderr, flush=True)
        record[file] = ran(file, count, arguments.sample, arguments.jobs)
        print(f"  {record[file]}", file=sys.stderr, flush=True)
        written = {"all": summary(record, asked), "by file": dict(sorted(record.items()))}
        RESULT.write_text(json.dumps(written, indent=1) + "\n")
    print(json.dumps(summary(record, asked), indent=1))


if __name__ == "__main__":
    main()
