"""Contracts of training, for any run: it resumes with the same bits, learns, and does not depend on how a batch is cut."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from anyformer.checkpoint import directory_of
from anyformer.describe import DescriptionError, change_all
from anyformer.files import default_cache, write_text
from anyformer.model import Architecture
from anyformer.objectives import Objective, divides_logits
from anyformer.parts import Attention, Rotary
from anyformer.resolving import architecture as architecture_of
from anyformer.resolving import path_beside
from anyformer.tasks import Task
from anyformer.testing.around import VOCAB, decoder_of
from anyformer.testing.tasks import length_of
from anyformer.training import Run, Trained, resume, train
from anyformer.training.held_out import corpus_of
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer
from anyformer.tuning import AdamW, Optimiser

STEPS, KILLED, REPEATED = 5, 3, 20
LINES = [f"the {n} words of text {n * n % 97} are not many, but they say {n % 7} things. " for n in range(200)]
TINY = {
    "minutes": None, "steps": STEPS, "checkpoints.every": KILLED, "checkpoints.keep": 2, "evaluation.every": 2,
    "evaluation.batches": 1, "evaluation.final_tokens": 128, "plan.precision": "fp32", "plan.compile": "off", "loggers": (),
    "schedule": {"kind": "constant", "warmup": 0},
}  # fmt: skip
"""Changes to a run with which it takes seconds, and has a checkpoint of the update at which it is killed."""
QUICK = AdamW(learning_rate=1e-2)
"""The optimiser of a run that names none."""
TIMES = (1, 10, 100)
"""Multiples of an optimiser's own rate, which is meant for more updates, at one of which a batch is learnt in a few."""


def short(run: Run) -> Run:
    """The run of five updates in fp32."""
    return change_all(run, {**TINY, "optimiser": QUICK if run.optimiser == AdamW() else run.optimiser})


def run_on_copying(architecture: Architecture) -> Run:
    """A run of a decoder on a generated task, whose symbols fit into any vocabulary of 16 tokens or more."""
    return Run.parse(
        {
            "steps": STEPS, "batch": 4, "accumulation": 2, "length": 12, "seed": 7, "objective": {"kind": "task"},
            "data": {"kind": "task", "task": {"kind": "copying", "letters": 8}}, "architecture": architecture.plain(),
        }
    )  # fmt: skip


def run_on_task(task: Task) -> Run:
    """A run of a tiny decoder on a task."""
    architecture = decoder_of(*[Attention(heads=4, place=Rotary())] * 2)
    run = run_on_copying(architecture)
    enough = {"architecture.embedding.vocab": max(VOCAB, len(task.symbols) + 2)}
    return change_all(run, {"data.task": task.plain(), "length": max(length_of(task), 2), **enough})


def run_with(optimiser: Optimiser) -> Run:
    """A run of a tiny decoder whose weights an optimiser changes."""
    return change_all(run_on_copying(decoder_of(*[Attention(heads=4, place=Rotary())] * 2)), {"optimiser": optimiser})


def run_on_text(architecture: Architecture, objective: Objective) -> Run:
    """A run on lines of text, as bytes."""
    file = default_cache() / "check" / "lines.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(json.dumps({"text": line}) + "\n" for line in LINES))
    data = {"kind": "text", "paths": [str(file)], "tokenizer": {"kind": "bytes"}, "validation": 0.2}
    return _parsed({"objective": objective.plain(), "data": data, "architecture": architecture.plain()})


def run_of(table: Mapping[str, Any], folder: Path) -> Run:
    """The tiny run that a plug-in gives; paths in it are looked for in its folder, and architectures by name."""
    found = dict(table)
    named, data = found.get("architecture"), found.get("data")
    if named is not None:
        found["architecture"] = architecture_of(
            named if isinstance(named, Mapping) else path_beside(str(named), folder)
        ).plain()
    if isinstance(data, Mapping) and "paths" in data:
        found["data"] = {**data, "paths": [str(path_beside(path, folder)) for path in data["paths"]]}
    return _parsed(found)


def _parsed(table: Mapping[str, Any]) -> Run:
    run = Run.parse({"steps": STEPS, "batch": 4, "length": 32, "seed": 7, **table})
    try:
        return change_all(run, {"accumulation": 2}) if "accumulation" not in table else run
    except DescriptionError:  # an objective whose batch may not be cut
        return run


def killed_and_resumed_equals_never_interrupted(run: Run) -> Trained:
    """A run that a kill left at update 3 ends, resumed, with the bits and the losses of one that was left alone."""
    quiet, run = Console(quiet=True), short(run)
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        whole, killed = Path(place) / "whole", Path(place) / "killed"
        trained = train(run, whole, console=quiet)
        # As a kill leaves it: nothing after the checkpoint of step 3, and no summary.
        shutil.copytree(whole, killed)
        shutil.rmtree(directory_of(killed, STEPS))
        (killed / "summary.json").unlink()
        resume(killed, console=quiet)
        assert _digests(killed) == _digests(whole), "weights or the optimiser's state differ after resuming"
        assert _losses(killed) == _losses(whole), f"losses differ: {_losses(killed)} resumed, {_losses(whole)} without a stop"
    return trained


def loss_falls_on_one_repeated_batch(run: Run) -> None:
    """Twenty updates on the same batch lower its loss by a twentieth at least, and no loss is infinite; where three in a row
    have done so, the rest is not computed."""
    seen = _seen(run, QUICK.learning_rate, _fell)
    assert all(map(torch.isfinite, torch.tensor(seen))), seen
    assert _falls(seen), f"the loss of one batch goes from {seen[0]:.4f} to {seen[-1]:.4f} in {len(seen)} updates"


def loss_falls_at_some_rate(run: Run) -> None:
    """The same at the rate of the run's optimiser, or at ten or a hundred times it."""
    rates = [times * run.optimiser.learning_rate for times in TIMES]
    seen = {rate: _seen(run, rate) for rate in rates}
    ends = ", ".join(f"{losses[-1]:.4f} at a rate of {rate:.2g}" for rate, losses in seen.items())
    assert any(map(_falls, seen.values())), (
        f"the loss of one batch goes from {seen[rates[0]][0]:.4f} to {ends} in {REPEATED} updates"
    )


def _falls(seen: Sequence[float]) -> bool:
    return seen[-1] < 0.95 * seen[0]


def _fell(seen: Sequence[float]) -> bool:
    """Whether three losses in a row are so low."""
    return len(seen) > 3 and max(seen[-3:]) < 0.95 * seen[0]


def _seen(run: Run, rate: float, enough: Callable[[Sequence[float]], bool] = lambda seen: False) -> list[float]:
    """The losses of one batch before each of twenty updates on it, or before as many as are enough."""
    trainer = trainer_of(run)
    batch, seen = trainer.micro_batches(0), []
    for _ in range(REPEATED):
        seen.append(trainer.passes.add_gradients(batch)[0])
        for each in (trainer.trainee, *trainer.learning.values()):
            for group in each.optimiser.param_groups:
                group["lr"] = rate * group["factor"]
            each.optimiser.step()
            each.optimiser.zero_grad()
        if enough(seen):
            break
    return seen


def loss_does_not_depend_on_the_cut(run: Run) -> None:
    """Loss and gradients of a batch computed at once are those of the same batch in several micro-batches."""
    pieces = 2 if run.accumulation == 1 else run.accumulation
    (one, once), (other, parts) = (_first(trainer_of(change_all(run, {"accumulation": count}))) for count in (1, pieces))
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, msg=partial("the loss in pieces and at once: {}".format))
    for name, gradient in once.items():
        torch.testing.assert_close(gradient, parts[name], rtol=1e-3, atol=1e-5, msg=partial("{}: {}".format, name))


def loss_of_divided_logits_is_that_of_whole_ones(run: Run) -> None:
    """An objective of which processes may divide the logits has the same loss and gradients of divided ones: here of those of a
    group of one process, whose tensors go with no plain ones."""
    if not divides_logits(run.objective):
        return  # each process has all of them
    trainer = trainer_of(run)
    loss, gradients = _first(trainer)
    trainer.model.zero_grad(set_to_none=True)
    with _alone() as mesh:
        trainer.model.register_forward_hook(lambda *call: DTensor.from_local(call[-1], mesh, [Shard(-1)], run_check=False))
        divided, _ = trainer.passes.add_gradients(trainer.micro_batches(0))
        torch.testing.assert_close(torch.as_tensor(divided), loss, rtol=1e-5, atol=1e-6)
        for name, parameter in trainer.model.named_parameters():
            if name in gradients:
                torch.testing.assert_close(
                    parameter.grad, gradients[name], rtol=1e-3, atol=1e-5, msg=partial("{}: {}".format, name)
                )


@contextmanager
def _alone() -> Iterator[DeviceMesh]:
    """A mesh of this process alone, in a group that is there within if none was."""
    began = not dist.is_initialized()
    if began:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield DeviceMesh("cpu", [dist.get_rank()])
    finally:
        if began:
            dist.destroy_process_group()


def _first(trainer: Trainer) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients of the first update."""
    loss, _ = trainer.passes.add_gradients(trainer.micro_batches(0))
    return torch.as_tensor(loss), {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}


def trainer_of(run: Run) -> Trainer:
    """The trainer of a short run on the CPU, before its first update."""
    run = short(run)
    return Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))


def _digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file of tensors of the last checkpoint."""
    files = directory_of(directory, STEPS).glob("*.safetensors")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _losses(directory: Path) -> list[float]:
    rows = map(json.loads, (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [row["loss"] for row in rows if row["kind"] == "train"]
