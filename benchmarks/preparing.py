"""Tokens per second and peak memory of preparing data, beside Hugging Face `datasets` on the same files.

    python -m benchmarks.preparing --peers-python .venv-peers/bin/python
    python -m benchmarks.preparing --gigabyte        # ours alone: 1 GB of text in less than 1 GB of memory

Both read the files, tokenise with the same tokenizer.json in as many processes, and write the token ids; ours also checks every
file beforehand, hashes what it writes, and keeps an index. They take turns, each round in a fresh process whose imports do not
count and without anything cached. The gate: equal numbers of tokens. Text is in files of about 100 KB, so that both see the
same documents; a record is a source and a target.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from itertools import accumulate, count
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.compare import RESULTS, machine

OURS, PEER = "anyformer", "datasets"
DOCUMENT = 100_000
"""Bytes of a text file, about."""
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def sentences(seed: int) -> Iterator[str]:
    """Sentences without end, of 20,000 made-up words whose frequencies fall as 1 / rank."""
    random = Random(seed)
    words = ["".join(random.choices(_LETTERS, weights=range(26, 0, -1), k=random.randint(2, 9))) for _ in range(20_000)]
    summed = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for number in count():
        yield f"{' '.join(random.choices(words, cum_weights=summed, k=12)).capitalize()}, {number}.\n"


def write_text(folder: Path, size: int) -> None:
    """About `size` bytes of text in files of `DOCUMENT` bytes."""
    source = sentences(0)
    for number in range(max(1, size // DOCUMENT)):
        lines, length = [], 0
        while length < DOCUMENT:
            lines.append(next(source))
            length += len(lines[-1])
        (folder / f"{number:06d}.txt").write_text("".join(lines))


def write_records(folder: Path, size: int) -> None:
    """About `size` bytes of pairs as lines of JSON."""
    source, written = sentences(1), 0
    with (folder / "records.jsonl").open("w") as file:
        while written < size:
            record = {"source": next(source) + next(source), "target": next(source)}
            written += file.write(json.dumps(record) + "\n")


def ours(what: str, source: str, tokenizer: str, out: str, workers: int) -> None:
    """One preparation in this process; prints one line of JSON."""
    from anyformer.data import RecordTable, Split, Text, TextPairs, TokenizerFile, prepare

    spec = TokenizerFile(path=tokenizer)
    kind = Text if what == "text" else TextPairs
    begin = time.perf_counter()
    corpus = prepare(kind(paths=(source,), tokenizer=spec, validation=0.0), Path(out), workers, progress=False)
    seconds = time.perf_counter() - begin
    match corpus.train:
        case Split():
            tokens = len(corpus.train)
        case RecordTable():
            tokens = sum(int(corpus.train.lengths(name).sum()) for name in ("source", "target"))
        case _:
            raise AssertionError("no mixture is prepared here")
    own, child = (resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"seconds": seconds, "tokens": tokens, "peak_own_bytes": own, "peak_child_bytes": child}))


def learn(folder: Path, text: Path) -> Path:
    """A tokenizer of 8,192 byte pairs, learnt from the text, as a file for both."""
    from anyformer.data import BytePairs, Text, prepare

    few = tuple(str(path) for path in sorted(text.iterdir())[:20])
    corpus = prepare(Text(paths=few, tokenizer=BytePairs(vocab=8192), validation=0.0), folder / "learnt", 1, progress=False)
    return corpus.directory / "tokenizer.json"


def run(command: list[str], workers: int) -> dict[str, Any]:
    """The report of one worker, in a folder of its own that is deleted afterwards."""
    out = Path(tempfile.mkdtemp(prefix="preparing-"))
    try:
        done = subprocess.run([*command, str(out), str(workers)], stdout=subprocess.PIPE, text=True, check=True)
    finally:
        shutil.rmtree(out)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def summary(rounds: dict[str, list[dict[str, Any]]], workers: int) -> dict[str, Any]:
    """Medians over rounds; the ratio is that within a round.

    `peak_bytes` counts every process at the peak of the largest, and so a page that processes share once for each.
    """
    rows: dict[str, Any] = {}
    for name, found in rounds.items():
        own, child = (max(each[key] for each in found) for key in ("peak_own_bytes", "peak_child_bytes"))
        rows[name] = {
            "tokens": found[0]["tokens"],
            "seconds": [round(each["seconds"], 3) for each in found],
            "tokens_per_second": round(statistics.median(each["tokens"] / each["seconds"] for each in found)),
            "peak_own_bytes": own,
            "peak_child_bytes": child,
            "peak_bytes": own + workers * child,
        }
    if PEER in rounds:
        ratios = [b["seconds"] / a["seconds"] for a, b in zip(rounds[OURS], rounds[PEER], strict=True)]
        rows["ours_is_faster_by"] = round(statistics.median(ratios), 3)
        rows["datasets_version"] = rounds[PEER][0]["version"]
    return rows


def main() -> None:
    """Generate the files, let both take turns, check, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", default=".venv-peers/bin/python")
    parser.add_argument("--megabytes", type=int, default=200, help="of text, and of records")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gigabyte", action="store_true", help="only the memory of preparing 1 GB of text by ours")
    parser.add_argument("--worker", nargs=5, metavar=("WHAT", "SOURCE", "TOKENIZER", "OUT", "WORKERS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        what, source, tokenizer, out, workers = arguments.worker
        ours(what, source, tokenizer, out, int(workers))
        return
    size = 10**9 if arguments.gigabyte else arguments.megabytes * 10**6
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "bytes": size,
        "workers": arguments.workers,
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tokenizer: Path | None = None
        for what, write in {"text": write_text, "records": write_records}.items():
            source = place / what
            source.mkdir()
            write(source, size)
            tokenizer = tokenizer or learn(place, source)
            own = [sys.executable, "-m", "benchmarks.preparing", "--worker", what, str(source), str(tokenizer)]
            peer = [arguments.peers_python, "benchmarks/peers/prepare.py", what, str(source), str(tokenizer)]
            commands = {OURS: own} if arguments.gigabyte else {OURS: own, PEER: peer}
            rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
            for _ in range(1 if arguments.gigabyte else arguments.rounds):
                for name, command in commands.items():
                    rounds[name].append(run(command, arguments.workers))
            counts = {each["tokens"] for found in rounds.values() for each in found}
            if len(counts) > 1:
                raise SystemExit(f"{what}: the contenders wrote different numbers of tokens: {sorted(counts)}")
            record[what] = summary(rounds, arguments.workers)
            print(json.dumps({what: record[what]}, indent=1), flush=True)
    full = arguments.megabytes >= 200
    if arguments.gigabyte:
        for what in ("text", "records"):
            peak = record[what][OURS]["peak_bytes"]
            if peak >= 10**9:
                raise SystemExit(f"{what}: preparing 1 GB took {peak / 1e6:,.0f} MB of memory")
    if full:
        path = RESULTS / ("preparing-gigabyte.json" if arguments.gigabyte else "preparing.json")
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"written: {path}")


if __name__ == "__main__":
    main()
