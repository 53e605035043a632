"""The proof, on a user's own run, that a run which is killed and resumed ends with the same bits as one that is left alone."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer import checkpoint
from anyformer.describe import UserError, change_all, to_toml
from anyformer.training import journal
from anyformer.training.loop import lasts
from anyformer.training.precision import default_device, measured_host, resolve
from anyformer.training.run import Run

STEPS, SAVED, TRIES = 6, 2, 5
"""Updates of the first attempt, updates between checkpoints, and how often the kill may come too late before it is given up."""
REPORT = "That is a mistake of this program: please report it with the run's file"
WAIT = 0.002
"""Seconds between two looks at the metrics of the run that is to be killed."""
CLOCK = ("seconds", "usage")
"""What a clock says is no result."""
ORDER, LOSSES, EVALUATIONS, WEIGHTS, STATES = "order of data", "losses", "evaluations", "weights", "optimiser"


@dataclass(frozen=True)
class Compared:
    """One thing that both runs have: what it is, a digest of it, and how it differs, in words; empty where it does not."""

    what: str
    digest: str
    difference: str = ""

    def __str__(self) -> str:
        return f"  {self.what:<14} {self.difference or f'the same ({self.digest})'}"


@dataclass(frozen=True)
class Verified:
    """A run of `steps` updates beside one that was killed after update `killed` and resumed from the checkpoint of `saved`."""

    steps: int
    killed: int
    saved: int
    compared: tuple[Compared, ...]
    cause: str = ""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not any(each.difference for each in self.compared)

    def lines(self) -> list[str]:
        """The report."""
        last = "the same bits: this run may be killed at any moment, and --resume ends where it would have ended"
        return [
            f"one run of {self.steps} updates, and one that was killed after update {self.killed} and resumed from update "
            f"{self.saved}, in a process of its own:",
            *map(str, self.compared),
            last if self.same else f"NOT the same: {self.cause}",
        ]


def verify_resume(run: Run, say: Callable[[str], None] = lambda line: None) -> Verified:
    """Train a few updates of a run twice in a temporary directory, once without a stop, and compare all that is left.

    The second run is a process that is killed, and another that goes on from its last checkpoint. Precision and compilation
    are those of the whole run. `say` is told what is done. Raises `UserError` if a process fails, or always ends before it
    can be killed.
    """
    plan, _ = resolve(run.plan, measured_host(default_device(), run.plan), run.tuning.base, long=lasts(run))
    steps = STEPS
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="anyformer-verify-") as place:
            whole, stopped, file = (Path(place) / name for name in ("whole", "stopped", "run.toml"))
            file.write_text(to_toml(shortened(run.but(plan=plan), steps)), encoding="utf-8")
            say(f"{steps} updates without a stop")
            finish(str(file), "--out", str(whole))
            say(f"the same, killed after update {SAVED + 1}")
            killed = killed_after(SAVED + 1, stopped, str(file), "--out", str(stopped))
            saved = checkpoint.steps(stopped)[-1]
            if saved < steps:
                say(f"resuming after update {saved}")
                finish("--resume", str(stopped))
                return Verified(steps, killed, saved, compare(whole, stopped), cause(whole, stopped, saved))
        steps *= 2
    raise UserError(f"all {TRIES} runs, the last of {steps // 2} updates, ended before it could be killed; try again")


def shortened(run: Run, steps: int) -> Run:
    """The run with so few updates that it can be watched from its start to its end."""
    return change_all(
        run,
        {
            "minutes": None, "steps": steps, "checkpoints.every": SAVED, "checkpoints.keep": 1, "evaluation.every": SAVED,
            "evaluation.batches": 1, "evaluation.final_tokens": run.batch * run.length, "evaluation.baseline": False,
            "loggers": (),
        },
    )  # fmt: skip


def finish(*words: str) -> None:
    """`anyformer train` with these words in another process, to its end."""
    done = subprocess.run(_command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment(), check=False)
    if done.returncode:
        raise _failed(done.returncode, done.stdout)


def killed_after(step: int, directory: Path, *words: str) -> int:
    """`anyformer train` in another process, killed once so many updates are in its metrics; the last that was made."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(_command(*words), stdout=said, stderr=subprocess.STDOUT, env=_environment())
        try:
            while process.poll() is None and _done(directory) < step:
                time.sleep(WAIT)
        finally:
            process.kill()
            code = process.wait()
        if _done(directory) < step:
            said.seek(0)
            raise _failed(code, said.read())
    return _done(directory)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "anyformer", "train", *words]


def _environment() -> dict[str, str]:
    """That of this process; a path to this very package first, wherever the working directory is."""
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _failed(code: int, said: bytes) -> UserError:
    return UserError(f"a process that trains the run failed with exit code {code}:\n{said.decode(errors='replace').strip()}")


def _done(directory: Path) -> int:
    return max((row["step"] for row in _rows(directory, "train")), default=0)


def compare(one: Path, other: Path) -> tuple[Compared, ...]:
    """What two finished runs have in common: the order of their data, metrics, weights and optimiser."""
    return (
        _compared(ORDER, *(_facts(each, "train", only=("data",)) for each in (one, other))),
        _compared(LOSSES, *(_facts(each, "train", without=("data",)) for each in (one, other))),
        _compared(EVALUATIONS, *(_facts(each, "validation") for each in (one, other))),
        *_tensors(one, other),
    )


def cause(one: Path, other: Path, saved: int) -> str:
    """Where two runs part, and what that means; empty where they do not."""
    first, second = (_facts(each, "train") for each in (one, other))
    for step in sorted(first.keys() | second.keys()):
        a, b = first.get(step), second.get(step)
        if a == b:
            continue
        if a is None or b is None:
            return f"update {step} is in the metrics of one of them alone"
        if a["data"] != b["data"]:
            return f"from update {step} on they see other examples; were files of the data changed meanwhile?"
        if step <= saved:
            return (
                f"update {step} differs, before the checkpoint of update {saved}: two processes of this machine do not compute "
                "the same from the same examples. Try --set plan.compile=off, or one thread (OMP_NUM_THREADS=1)"
            )
        return f"update {step}, after the checkpoint of update {saved}, differs: a state is not saved with it. {REPORT}"
    return f"the updates are equal, and what is left is not: a state is not saved. {REPORT}"


def _compared(what: str, one: Mapping[int, Any], other: Mapping[int, Any]) -> Compared:
    for step in sorted(one.keys() | other.keys()):
        a, b = one.get(step), other.get(step)
        if a != b:
            return Compared(what, "", f"differ from step {step} on: {_shown(a, b)} without a stop, {_shown(b, a)} resumed")
    return Compared(what, _digest(one))


def _shown(facts: Mapping[str, Any] | None, beside: Mapping[str, Any] | None) -> str:
    """The facts that differ from those beside them."""
    if facts is None:
        return "nothing"
    return ", ".join(f"{name} {value!r}" for name, value in facts.items() if beside is None or beside.get(name) != value)


def _tensors(one: Path, other: Path) -> Iterator[Compared]:
    """Each file of tensors in the last checkpoints, whoever wrote it."""
    places = [checkpoint.directory_of(each, checkpoint.steps(each)[-1]) for each in (one, other)]
    named = [{checkpoint.file_of(path.name) for path in place.glob("*.safetensors")} for place in places]
    for name in sorted(named[0] | named[1]):
        what = {"model.safetensors": WEIGHTS, "optimiser.safetensors": STATES}.get(name, name.removesuffix(".safetensors"))
        if not all(name in names for names in named):
            yield Compared(what, "", "is in one of the last checkpoints alone")
            continue
        a, b = (checkpoint.read(place / name) for place in places)
        every = sorted(a.keys() | b.keys())
        differ = [key for key in every if key not in a or key not in b or not _same(a[key], b[key])]
        difference = f"{len(differ)} of {len(every)} tensors differ, the first is {_gap(differ[0], a, b)}" if differ else ""
        yield Compared(what, a.digest[:12], difference)


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether all bits are equal."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and torch.equal(
        a.flatten().view(torch.uint8), b.flatten().view(torch.uint8)
    )


def _gap(name: str, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> str:
    if name not in a or name not in b:
        return f"{name}, which one of them lacks"
    if a[name].shape != b[name].shape:
        return f"{name}: {tuple(a[name].shape)} and {tuple(b[name].shape)}"
    return f"{name}, by up to {(a[name].double() - b[name].double()).abs().max().item():.3g}"


def _facts(directory: Path, kind: str, only: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> dict[int, dict[str, Any]]:
    """The metrics of each step without what a clock says."""
    left_out = {*CLOCK, *without, "kind", "step"}
    return {
        row["step"]: {name: row[name] for name in row if name not in left_out and (not only or name in only)}
        for row in _rows(directory, kind)
    }


def _rows(directory: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in journal.read_metrics(directory) if row["kind"] == kind]


def _digest(facts: Mapping[int, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
