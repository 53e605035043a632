"""SIGKILL at uniform random moments: killed and resumed, a run ends with the bits of the run that was left alone.

    python -m benchmarks.kills [NAME ...]

A process that has everything imported forks each life of the run and kills it at a moment drawn uniformly between the fork and
twice the run's share of a life, until it has been killed so often; then the run may end. If it ends before, the next
chain of lives starts in a new directory. Compared are all losses, gradient norms and evaluations of the metrics, run.toml, and
the digest of every file of every checkpoint that is left. A run of several processes, which write their parts of a checkpoint
while they train, is killed process by process, in an order and with gaps that are drawn too. A kill hit a save if it left a
half-written checkpoint. Times depend on the machine, the comparison does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.distributed.elastic.utils.distributed import get_free_port

from anyformer.api import architecture
from anyformer.data import Bytes, Text
from anyformer.describe import change_all
from anyformer.files import write_text
from anyformer.mesh import Mesh
from anyformer.plan import Plan
from anyformer.training import AdamW, Checkpoints, Evaluation, Run, journal, loop, resume, train

RESULT = Path(__file__).parent / "results" / "kills.json"
MODELS = {
    "dense": "llama-3-8b", "experts": "mixtral-8x7b", "recurrent": "qwen3-next-80b-a3b", "windowed": "gemma-2-2b",
}  # fmt: skip
"""Catalogue entries, of which the tiny form is trained."""
ALONE, TOGETHER = Mesh(), Mesh(shard=2, tensor=2)
RUNS = {"dense-long": (2000, 100, 30), **dict.fromkeys(MODELS, (200, 20, 5))}
"""Updates, kills, and how many of these at least during a save."""
MOST = 4
"""Times as many kills as asked for, if too few of them hit a save."""
GAP = 0.02
"""Seconds, at most, between the kills of two processes of a run."""


@dataclass(frozen=True)
class Killed:
    """What the kills of a run came to: `during_a_save` left a half-written checkpoint, `before_the_first_update` left no
    metrics; `chains` of lives, each to the run's end and `equal` to the run left alone."""

    model: str
    steps: int
    kills: int
    during_a_save: int
    before_the_first_update: int
    chains: int
    equal: bool


def run_of(model: str, place: Path, steps: int, every: int, mesh: Mesh = ALONE) -> Run:
    """A run of a tiny model on a text in `place`: with dropout, two micro-batches, evaluations and frequent saves."""
    text = place / "text.py"
    if not text.exists():
        write_text(text, "\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400)))
    return Run(
        steps=steps, batch=4, length=32, accumulation=2, optimiser=AdamW(learning_rate=3e-3),
        data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1),
        evaluation=Evaluation(every=max(7, steps // 20), batches=2, final_tokens=256, baseline=False),
        checkpoints=Checkpoints(every=every, keep=2), plan=Plan(precision="fp32", compile="off", mesh=mesh),
        architecture=change_all(architecture(MODELS[model], tiny=True), {"decoder.dropout": 0.1, "mtp": None}),
    )  # fmt: skip


def live(run: Run, directory: Path, seconds: float | None = None, chance: random.Random | None = None) -> bool:
    """Fork the processes that start or resume the run, and kill them after some seconds, one by one, in an order and with gaps
    that are drawn; whether they got to the run's end before."""
    left, until = started(run, directory), None if seconds is None else time.monotonic() + seconds
    while left and (until is None or time.monotonic() < until):
        left = ended(left)
        time.sleep(0.0005)
    kill_group(left, chance or random.Random())
    return not left


def processes_of(run: Run) -> int:
    """How many processes a run has."""
    return run.plan.mesh.divided * (run.plan.mesh.data or 1)


def started(run: Run, directory: Path) -> list[int]:
    """Fork the processes that start or resume a run; gives their numbers in the system."""
    count, port, begun = processes_of(run), get_free_port(), (directory / journal.RUN).exists()
    return [_begin(run, directory, begun, rank, count, port) for rank in range(count)]


def ended(lives: list[int]) -> list[int]:
    """Those of some processes that go on; the others must have ended well."""
    left = []
    for process in lives:
        done, status = os.waitpid(process, os.WNOHANG)
        assert status == 0, f"a life of the run failed, with status {status}"
        left += [] if done else [process]
    return left


def kill_group(lives: list[int], chance: random.Random) -> None:
    """Kill processes one by one, in an order and with gaps that are drawn."""
    for process in chance.sample(sorted(lives), len(lives)):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        time.sleep(chance.uniform(0, GAP))


def _begin(run: Run, directory: Path, begun: bool, rank: int, count: int, port: int) -> int:
    """Fork one of the processes of a run, as a launcher would start it; gives its number in the system."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        if count > 1:
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}
        quiet = Console(quiet=True)
        if begun:
            resume(directory, console=quiet)
        else:
            train(run, directory, console=quiet)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def outcome(directory: Path) -> dict[str, Any]:
    """All that must be equal: every line of the metrics but for its seconds, and the digest of every file."""
    rows = [
        {key: value for key, value in row.items() if key not in ("seconds", "usage")} for row in journal.read_metrics(directory)
    ]
    files = sorted((directory / "checkpoints").rglob("*"))
    digests = {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()
    }
    return {"rows": rows, "run": (directory / journal.RUN).read_text(), "files": digests}


def kill(
    model: str, place: Path, *, steps: int, every: int, kills: int, during_a_save: int, seed: int, mesh: Mesh = ALONE
) -> Killed:
    """Kill the run of a model so often, and so often during a save, and compare what is left with the run left alone."""
    run, chance = run_of(model, place, steps, every, mesh), random.Random(seed)
    started = time.monotonic()
    assert live(run, place / "alone")
    share = (time.monotonic() - started) / kills
    # Of the fork, the model and the checkpoint that is read, which every life begins with.
    started = time.monotonic()
    assert live(change_all(run, {"steps": 1}), place / "one")
    start = time.monotonic() - started
    hit = hits = early = chains = 0
    equal, expected = True, outcome(place / "alone")
    while hit < kills or (hits < during_a_save and hit < MOST * kills):
        chains += 1
        directory = place / f"killed-{chains}"
        while hit < kills or (hits < during_a_save and hit < MOST * kills):
            if live(run, directory, chance.uniform(0, start + 2 * share), chance):
                break
            hit += 1
            hits += bool(list((directory / "checkpoints").glob(".step-*.partial-*")))
            early += not journal.read_metrics(directory)
        else:
            live(run, directory)
        equal = equal and outcome(directory) == expected
    return Killed(model, steps, hit, hits, early, chains, equal)


def prepare_to_fork(place: Path) -> None:
    """Have every life find its modules and the figures of the machine in this process: train for two updates here."""
    torch.set_num_threads(1)
    host = loop.measured_host(loop.default_device(), Plan())
    loop.measured_host = lambda device, plan: host
    train(run_of("dense", place, 2, 1), place / "first", console=Console(quiet=True))
    import_module("anyformer.training.parallel.together")


def main() -> None:
    """The runs asked for by the name of their model, or all, and the result."""
    names = sys.argv[1:] or [*RUNS]
    equal = True
    with tempfile.TemporaryDirectory() as place:
        os.environ["ANYFORMER_CACHE"] = f"{place}/cache"
        prepare_to_fork(Path(place))
        for name in names:
            steps, kills, saves = RUNS[name]
            room = Path(place) / name
            room.mkdir()
            model = name.partition("-")[0]
            found = kill(model, room, steps=steps, every=2, kills=kills, during_a_save=saves, seed=[*RUNS].index(name))
            print(found, flush=True)
            earlier = json.loads(RESULT.read_text())["runs"] if RESULT.exists() else {}
            write_text(RESULT, json.dumps({"runs": {**earlier, name: asdict(found)}}, indent=1) + "\n")
            equal = equal and found.equal
    if not equal:
        raise SystemExit("a killed run did not end as the run that was left alone")


if __name__ == "__main__":
    main()
