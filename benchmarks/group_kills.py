"""SIGKILL of four processes that save together, at random moments: resumed, they end with the bits of those left alone.

    python -m benchmarks.group_kills [KILLS]         # 50, some ten minutes

The lives of a run are forks of a process that has everything imported, as in `benchmarks.kills`. The run saves after every
update, in the background, each process its share. Four lives in five are killed within a few updates of their first save, one
while it starts; the moment is drawn uniformly, and the processes go within milliseconds of one another, in an order that is
drawn too. What each of them was doing at the first kill is counted. After every kill each checkpoint that is seen must verify,
with the optimiser's state; each run that came to its end must have the metrics, settings and digests of the run left alone.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.kills import TOGETHER, ended, kill_group, outcome, prepare_to_fork, processes_of, run_of, started

from anyformer import checkpoint
from anyformer.files import write_text
from anyformer.training import Run
from anyformer.training.parallel import shares
from anyformer.training.trainer import OPTIMISER, Trainer

RESULT = Path(__file__).parent / "results" / "group_kills.json"
KILLS, STEPS, PROCESSES = 50, 40, 4
STARTING = 0.2
"""Of the lives, those that are killed while they start."""
WITHIN = 4
"""Updates, with their saves, within which the others are killed."""
DOING = ("updating", "copying", "writing", "sealing")
"""What a process does: it updates weights; takes a copy of them; writes its share; or waits until all is sealed and has its
name, which the first process sees to. In the first two a writer may still delete an older checkpoint."""


@dataclass
class GroupKills:
    """What became of the kills. `doing`: of all processes, at the first kill of each group that had begun to save; `partial`:
    groups that left a checkpoint half written; `verified`: checkpoints that were seen after a kill, all whole."""

    model: str
    processes: int
    steps: int
    kills: int = 0
    starting: int = 0
    doing: dict[str, int] = field(default_factory=dict)
    partial: int = 0
    verified: int = 0
    chains: int = 0
    equal: bool = True


Doing = Any
"""A byte of each process, shared by all: its place in `DOING`."""


@contextmanager
def watched(doing: Doing) -> Iterator[None]:
    """Within, processes that are forked note what they do."""

    def noting(real: Callable[..., Any], during: str, after: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            rank = int(os.environ.get("RANK", "0"))
            doing[rank] = DOING.index(during)
            try:
                return real(*given, **named)
            finally:
                doing[rank] = DOING.index(after)

        return call

    calls = (
        (Trainer, "saving", "copying", "updating"), (shares, "write_share", "writing", "sealing"),
        (shares.SharedCheckpoints, "write", "writing", "updating"),
    )  # fmt: skip
    with ExitStack() as stack:
        for owner, name, during, after in calls:
            stack.enter_context(mock.patch.object(owner, name, noting(getattr(owner, name), during, after)))
        yield


def live(run: Run, directory: Path, doing: Doing, seconds: float, chance: random.Random, *, saved: bool) -> list[str] | None:
    """A life of the run that is killed after some seconds; what its processes did then, None of one that ended before.

    `saved`: whether the seconds count from the first save, in the place of the fork.
    """
    doing[:] = [0] * len(doing)
    lives, until = started(run, directory), None if saved else time.monotonic() + seconds
    while lives and (until is None or time.monotonic() < until):
        if until is None and any(doing):
            until = time.monotonic() + seconds
        lives = ended(lives)
        time.sleep(0.0005)
    if not lives:
        return None
    found = [DOING[each] for each in doing]
    kill_group(lives, chance)
    return found


def verified(directory: Path) -> int:
    """How many checkpoints are seen; raises `CheckpointError` for one that is not whole."""
    steps = checkpoint.steps(directory)
    for step in steps:
        checkpoint.verify(checkpoint.directory_of(directory, step), (OPTIMISER,))
    return len(steps)


def kill(model: str, place: Path, *, steps: int, kills: int, seed: int, told: Callable[[str], None] = print) -> GroupKills:
    """Kill groups of processes of a model's run so often, and compare what is left with the run left alone."""
    run, chance = run_of(model, place, steps, 1, TOGETHER), random.Random(seed)
    doing, found, counts = RawArray("b", processes_of(run)), GroupKills(model, processes_of(run), steps), Counter[str]()
    with watched(doing):
        began = time.monotonic()
        assert live(run, place / "alone", doing, 3600, chance, saved=False) is None
        update = (time.monotonic() - began) / (steps + 2)
        expected, directory = outcome(place / "alone"), place / "killed-1"
        while found.kills < kills:
            starts = chance.random() < STARTING
            seconds = chance.uniform(0, 2 * update if starts else WITHIN * update)
            did = live(run, directory, doing, seconds, chance, saved=not starts)
            if did is None:
                found.chains, found.equal = found.chains + 1, found.equal and outcome(directory) == expected
                directory = place / f"killed-{found.chains + 1}"
                continue
            found.kills, found.starting = found.kills + 1, found.starting + starts
            found.partial += bool(list((directory / "checkpoints").glob(".step-*.partial-*")))
            found.verified += verified(directory)
            counts.update(() if starts else did)
            told(f"{found.kills} of {kills} kills: {'starting' if starts else ', '.join(did)}")
        assert live(run, directory, doing, 3600, chance, saved=False) is None
        found.chains, found.equal = found.chains + 1, found.equal and outcome(directory) == expected
    found.doing = {name: counts[name] for name in DOING}
    return found


def main() -> None:
    """So many kills, and the result."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    with tempfile.TemporaryDirectory() as place:
        os.environ["ANYFORMER_CACHE"] = f"{place}/cache"
        prepare_to_fork(Path(place))
        found = kill("dense", Path(place), steps=STEPS, kills=kills, seed=1, told=lambda line: print(line, flush=True))
    print(found)
    write_text(RESULT, json.dumps(asdict(found), indent=1) + "\n")
    if not found.equal:
        raise SystemExit("a killed run did not end as the run that was left alone")


if __name__ == "__main__":
    main()
