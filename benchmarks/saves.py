"""How long training waits for checkpoints: written in the background, and, for contrast, each waited for.

    python -m benchmarks.saves                  # about ten minutes of one core, and nothing else should run meanwhile
    python -m benchmarks.saves --folder DIR     # on the disk of this directory
    python -m benchmarks.saves --tiny           # a rehearsal of a few updates, which writes no result

A Llama of 12 M parameters with AdamW trains on one thread and saves weights and moments about every 20 seconds: as many updates
as took that long just before. Both ways of saving take turns. Everything is timed from inside: the calls of the loop that save
or wait for the writer, the updates, and the writes themselves. The share is that of the seconds in those calls in all seconds
of the loop, the wait for the last checkpoint included. A writer may also slow the updates that it runs beside: their median
stands beside that of the others. Writes benchmarks/results/saves.json, of which `docs/make_train.py` makes a sentence.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from benchmarks.compare import RESULTS, machine
from rich.console import Console

from anyformer import checkpoint
from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.training import AdamW, Checkpoints, ConstantSchedule, Evaluation, Run, train
from anyformer.training.journal import SUMMARY
from anyformer.training.saving import Saver
from anyformer.training.session import Session
from anyformer.training.step import Updates

RESULT = RESULTS / "saves.json"
WAYS = {"background": True, "waiting": False}
Span = tuple[float, float]


@dataclass(frozen=True)
class Sizes:
    """Of the model and its updates, of the saves, and how often each way has its turn."""

    width: int = 384
    depth: int = 8
    ffn: int = 1024
    batch: int = 4
    length: int = 256
    seconds: float = 20.0
    saves: int = 6
    rounds: int = 2


TINY = Sizes(width=48, depth=1, ffn=48, batch=2, length=32, seconds=0.0, saves=2, rounds=1)


def run_of(sizes: Sizes, updates: int, every: int, paths: tuple[str, ...] = ("python-stdlib",)) -> Run:
    """A run that saves every so many updates, and evaluates one batch at its end."""
    return Run(
        steps=updates,
        batch=sizes.batch,
        length=sizes.length,
        data=Text(paths=paths, tokenizer=Bytes(), validation=0.02),
        optimiser=AdamW(learning_rate=1e-3),
        schedule=ConstantSchedule(),
        evaluation=Evaluation(every=updates, final_tokens=sizes.batch * sizes.length, baseline=False),
        checkpoints=Checkpoints(every=every, keep=2),
        plan=Plan(precision=Fp32(), compile="off"),
        architecture=llama(width=sizes.width, depth=sizes.depth, heads=6, kv_heads=2, ffn=sizes.ffn, vocab=257, tied=False),
    )


@dataclass
class Watch:
    """When each call began and ended, by what it does."""

    spans: dict[str, list[Span]] = field(default_factory=lambda: {"wait": [], "update": [], "write": [], "train": []})

    def of(self, what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """The function, each of whose calls is noted."""

        def call(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return real(*given, **named)
            finally:
                self.spans[what].append((began, time.perf_counter()))

        return call

    def seconds(self, what: str) -> list[float]:
        return [end - begin for begin, end in self.spans[what]]

    def beside(self) -> Iterator[bool]:
        """Of each update, whether a write went on during any of it."""
        for begin, end in self.spans["update"]:
            yield any(start < end and begin < stop for start, stop in self.spans["write"])


@contextmanager
def watched() -> Iterator[Watch]:
    """Within, the calls of the loop that save or wait, its updates and its writes are noted."""
    watch = Watch()
    calls = (
        ("wait", Saver, "save"), ("wait", Saver, "then"), ("wait", Saver, "__exit__"), ("update", Updates, "update"),
        ("write", checkpoint, "write"), ("train", Session, "_train"),
    )  # fmt: skip
    with ExitStack() as stack:
        for what, owner, name in calls:
            stack.enter_context(mock.patch.object(owner, name, watch.of(what, getattr(owner, name))))
        yield watch


def attempt(run: Run, directory: Path, *, background: bool) -> dict[str, Any]:
    """One run, and what it waited for."""
    before = os.getloadavg()
    with mock.patch("anyformer.training.loop.room_for_copy", return_value=background), watched() as watch:
        train(run, directory, console=Console(quiet=True))
    ((begin, end),) = watch.spans["train"]
    # The end of the run waits for the writer once more, after its last update.
    last = sum(stop - start for start, stop in watch.spans["wait"] if start >= end)
    beside = list(watch.beside())
    alone, with_writer = (
        [seconds for seconds, other in zip(watch.seconds("update"), beside, strict=True) if other is which]
        for which in (False, True)
    )
    waited, total = sum(watch.seconds("wait")), end - begin + last
    told = json.loads((directory / SUMMARY).read_text())["waiting"]
    size = sum(path.stat().st_size for path in checkpoint.directory_of(directory, run.steps or 0).iterdir())
    return {
        "waited": round(waited, 4), "seconds": round(total, 3), "share": round(waited / total, 6),
        "saves": len(watch.spans["write"]), "checkpoint_bytes": size,
        "waits": [round(each, 4) for each in watch.seconds("wait")],
        "writes": [round(each, 3) for each in watch.seconds("write")],
        "update_alone": round(statistics.median(alone), 4) if alone else None,
        "update_beside_a_write": round(statistics.median(with_writer), 4) if with_writer else None,
        "updates_beside_a_write": len(with_writer), "updates": len(beside),
        "summary": {"waited": round(told["waited"], 4), "saves": told["saves"]},
        "load": {"before": [round(x, 2) for x in before], "after": [round(x, 2) for x in os.getloadavg()]},
    }  # fmt: skip


def interval(sizes: Sizes, directory: Path, paths: tuple[str, ...] = ("python-stdlib",)) -> tuple[int, float]:
    """Updates between two saves that take the seconds asked for, and the seconds of an update, after a few to warm up."""
    with watched() as watch:
        train(run_of(sizes, 6, 6, paths), directory, console=Console(quiet=True))
    update = statistics.median(watch.seconds("update")[2:])
    return max(2, round(sizes.seconds / update)), update


def main() -> None:
    """Let both ways take turns, and write what was found after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the runs are written and deleted; by default where the system says")
    parser.add_argument("--tiny", action="store_true", help="a few updates, and no result: a rehearsal")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sizes = TINY if arguments.tiny else Sizes()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary)
        every, update = interval(sizes, folder / "first")
        run = run_of(sizes, every * sizes.saves, every)
        results: list[dict[str, Any]] = []
        for turn in range(sizes.rounds):
            # The other one first in the next round.
            for way in list(WAYS)[:: 1 if turn % 2 == 0 else -1]:
                found = attempt(run, folder / f"{way}-{turn}", background=WAYS[way])
                results.append({"way": way, "round": turn, **found})
                print(f"{way}: waited {found['waited']:.2f} s of {found['seconds']:.0f} s, {found['share']:.2%}", flush=True)
                if not arguments.tiny:
                    write(results, sizes, every, update)


def write(results: list[dict[str, Any]], sizes: Sizes, every: int, update: float) -> None:
    """Put the results so far into the committed file, with the share over all rounds of each way."""
    versions = {name: version(name) for name in ("anyformer", "torch", "safetensors")}
    ways = {way: [each for each in results if each["way"] == way] for way in WAYS}
    record = {
        "date": date.today().isoformat(), "machine": machine(), "versions": versions, "threads": torch.get_num_threads(),
        "sizes": asdict(sizes), "parameters": run_of(sizes, 2, 1).architecture.folded_trained_cost(Shape()).parameters,
        "updates_between_saves": every, "seconds_between_saves": round(every * update, 2),
        "shares": {
            way: round(sum(each["waited"] for each in found) / sum(each["seconds"] for each in found), 6)
            for way, found in ways.items() if found
        },
        "results": results,
    }  # fmt: skip
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
