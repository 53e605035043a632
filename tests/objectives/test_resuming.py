"""Every objective: the loss falls on one repeated batch, and a run that was killed ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.catalogue import architecture
from anyformer.checkpoint import directory_of
from anyformer.describe import change_all
from anyformer.model import Architecture, build
from anyformer.parts import Causal, Head, Prefix
from anyformer.plan import Plan
from anyformer.training import Checkpoints, Evaluation, Run, resume, train
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer, corpus_of

STEPS, KILLED = 5, 3
PLAIN = Plan(precision="fp32", compile="off")


@dataclass(frozen=True)
class Case:
    """A tiny run: an architecture, an objective, and rows of its kind of data (texts for running text).

    `teacher`: whether a model stands at the path "teacher" before the run.
    """

    model: Architecture
    objective: dict[str, Any]
    data: dict[str, Any]
    rows: list[dict[str, Any]]
    length: int = 32
    teacher: bool = False


def tiny(name: str, **changes: Any) -> Architecture:
    return change_all(architecture(name, tiny=True), changes)


def encoder(head: Head | None = None) -> Architecture:
    """A small BERT, with another head if one is given."""
    made = architecture("bert-base-uncased", tiny=True)
    return made if head is None else made.but(head=head)


def prefix_model() -> Architecture:
    return tiny("llama-2-7b", **{"decoder.layer.attention.mask": Causal() | Prefix()})


TEXTS = [{"text": f"the {n} words of text {n * n % 97} are not many, but they say {n % 7} things. "} for n in range(200)]
PAIRS = [{"source": f"number {n}", "target": f"{n * 3 % 101} is its answer"} for n in range(120)]
LABELLED = [{"text": f"{'even' if n % 2 else 'odd'} things {n}", "label": "ab"[n % 2]} for n in range(120)]
ASKED = [{"prompt": f"{n}?", "answer": f"{n * 3 % 101}.", "worse": f"no {n}"} for n in range(120)]
CHATS = [
    {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["answer"]}]} for row in ASKED
]
PREFERRED = {"kind": "preferences", "chosen": "answer", "rejected": "worse"}
RUNNING = {"kind": "text"}
CASES = {
    "causal": Case(tiny("llama-2-7b"), {"kind": "causal"}, RUNNING, TEXTS),
    "prefix": Case(prefix_model(), {"kind": "prefix"}, RUNNING, TEXTS),
    "masked": Case(encoder(), {"kind": "masked", "unit": "words"}, RUNNING, TEXTS),
    "span_corruption": Case(tiny("t5-small"), {"kind": "span_corruption"}, RUNNING, TEXTS),
    "ul2": Case(tiny("t5-small"), {"kind": "ul2"}, RUNNING, TEXTS),
    "ul2-prefix": Case(prefix_model(), {"kind": "ul2", "target": "same_sequence"}, RUNNING, TEXTS),
    "denoising": Case(tiny("bart-base"), {"kind": "denoising"}, RUNNING, TEXTS),
    "replaced_tokens": Case(tiny("electra-small"), {"kind": "replaced_tokens"}, RUNNING, TEXTS),
    "diffusion": Case(tiny("llada-8b"), {"kind": "diffusion"}, RUNNING, TEXTS),
    "seq2seq": Case(tiny("t5-small"), {"kind": "seq2seq"}, {"kind": "pairs"}, PAIRS),
    "classification": Case(encoder(Head(pool="first", outputs=2)), {"kind": "classification"}, {"kind": "labelled"}, LABELLED),
    "instruction": Case(tiny("llama-2-7b"), {"kind": "instruction"}, {"kind": "chats"}, CHATS),
    "instruction_alone": Case(tiny("gpt2"), {"kind": "instruction", "pack": False}, {"kind": "prompts"}, ASKED),
    "dpo": Case(tiny("llama-2-7b"), {"kind": "dpo", "beta": 1.0}, PREFERRED, ASKED),
    "simpo": Case(tiny("llama-2-7b"), {"kind": "simpo"}, PREFERRED, ASKED),
    "orpo": Case(tiny("llama-2-7b"), {"kind": "orpo"}, PREFERRED, ASKED),
    "distillation": Case(
        tiny("llama-2-7b"), {"kind": "distillation", "teacher": "teacher", "alpha": 0.5}, RUNNING, TEXTS, teacher=True
    ),
}


@pytest.fixture(params=CASES)
def run(request, tmp_path, monkeypatch) -> Run:
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    case = CASES[request.param]
    monkeypatch.chdir(tmp_path)
    if case.teacher:
        checkpoint.save(build(case.model, seed=99), tmp_path / "teacher")
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in case.rows))
    data = {**case.data, "paths": [str(path)], "tokenizer": {"kind": "bytes"}, "validation": 0.2}
    plain = {
        "steps": STEPS, "batch": 4, "accumulation": 2, "length": case.length, "seed": 7,
        "objective": case.objective, "data": data, "architecture": case.model.plain(),
        "optimiser": {"kind": "adamw", "learning_rate": 1e-2}, "schedule": {"kind": "constant", "warmup": 0},
    }  # fmt: skip
    made = Run.parse(plain)
    often = Checkpoints(every=1, keep=STEPS + 1)
    return made.but(evaluation=Evaluation(every=2, batches=1, final_tokens=128), checkpoints=often, plan=PLAIN)


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file of tensors of the last checkpoint."""
    files = directory_of(directory, STEPS).glob("*.safetensors")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_killed_and_resumed_equals_never_interrupted(run, tmp_path):
    quiet = Console(quiet=True)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    trained = train(run, whole, console=quiet)
    assert trained.validation is not None
    assert trained.baseline is not None
    # As a kill leaves it: nothing after the checkpoint of step 3, and no summary.
    shutil.copytree(whole, killed)
    for step in range(KILLED + 1, STEPS + 1):
        shutil.rmtree(directory_of(killed, step))
    (killed / "summary.json").unlink()
    resume(killed, console=quiet)
    assert digests(killed) == digests(whole)
    losses = [
        [row for row in (folder / "metrics.jsonl").read_text().splitlines() if '"kind": "train"' in row]
        for folder in (whole, killed)
    ]
    plain = [[json.loads(row)["loss"] for row in rows] for rows in losses]
    assert plain[0] == plain[1]


def test_the_loss_falls_on_one_repeated_batch(run, tmp_path):
    torch.manual_seed(0)
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))
    pieces, count = trainer.micro_batches(0)
    seen = []
    for _ in range(20):
        total = sum(trainer.loss(examples, None)[0] for examples in pieces) / count
        total.backward()
        seen.append(float(total))
        for each in (trainer.trainee, *trainer.learning.values()):
            for group in each.optimiser.param_groups:
                group["lr"] = 1e-2
            each.optimiser.step()
            each.optimiser.zero_grad()
    assert all(map(torch.isfinite, torch.tensor(seen)))
    assert seen[-1] < 0.95 * seen[0], seen
