"""Distillation: the divergence against loops, and a student that a teacher helps."""

from __future__ import annotations

import json
import math
import random

import pytest
import torch
from rich.console import Console

from anyformer.catalogue.llama import llama
from anyformer.data import IGNORED, Bytes, Characters, Chats, Text
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.model.transformer import build
from anyformer.objectives import (
    CausalObjective,
    DistillationObjective,
    Examples,
    InstructionObjective,
    MaskedObjective,
    loss_of,
)
from anyformer.objectives.distillation import divergence
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.training import AdamW, Evaluation, Run, resume, train
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import read_metrics

LLAMA = llama(width=16, depth=1, heads=2, kv_heads=2, ffn=24, vocab=12, tied=True)
LETTERS = "abcdefghij"


def examples() -> Examples:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 12, (3, 8), generator=generator)
    targets = torch.randint(0, 12, (3, 8), generator=generator)
    targets[0, :3] = targets[2, 5:] = IGNORED
    return Examples(tokens, targets, None, torch.arange(3), weights=torch.rand(3, 8, generator=generator))


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_divergence_is_that_of_loops(temperature):
    teacher, student = 3 * torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(1))
    given = examples()
    expected = 0.0
    for row in range(3):
        for place in range(8):
            if given.targets[row, place] == IGNORED:
                continue
            p, q = ([math.exp(x / temperature) for x in each[row, place].tolist()] for each in (teacher, student))
            p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
            expected += float(given.weights[row, place]) * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert float(divergence(teacher, student, given, temperature)) == pytest.approx(expected, rel=1e-5)
    assert float(divergence(teacher, teacher, given, temperature)) == pytest.approx(0, abs=1e-6)


def test_the_loss_mixes_the_data_and_the_teacher():
    student, teacher, given = build(LLAMA, seed=1).eval(), build(LLAMA, seed=2).eval(), examples()
    partners = {"teacher": teacher}

    def loss(**fields: object) -> float:
        return float(loss_of(DistillationObjective(teacher="t", **fields), student, given, None, partners=partners).detach())

    own = float(loss_of(CausalObjective(), student, given, None).detach())
    taught = 9 * float(divergence(teacher(given.tokens), student(given.tokens), given, 3.0).detach())
    assert loss(alpha=0.0) == pytest.approx(own, rel=1e-6)
    assert loss(alpha=1.0, temperature=3.0) == pytest.approx(taught, rel=1e-6)
    assert loss(alpha=0.3, temperature=3.0) == pytest.approx(0.7 * own + 0.3 * taught, rel=1e-6)
    objective = DistillationObjective(teacher="t", of=CausalObjective(z_loss=0.1))
    totals = objective.statistics(student, given, Auxiliary(), partners)
    assert float(totals["loss"].detach()) == pytest.approx(own, rel=1e-6)  # held out: without the teacher and penalties
    assert objective.metrics(totals, {})["teacher_loss"] == pytest.approx(
        float(loss_of(CausalObjective(), teacher, given, None).detach()) / given.count, rel=1e-6
    )


def test_the_teacher_gets_no_gradient():
    student, teacher = build(LLAMA, seed=1), build(LLAMA, seed=2)
    loss_of(DistillationObjective(teacher="t", alpha=1.0), student, examples(), None, partners={"teacher": teacher}).backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(parameter.grad is not None for parameter in student.parameters())


def test_what_cannot_be_taught_is_refused():
    with pytest.raises(DescriptionError, match="gives no logits"):
        DistillationObjective.parse({"teacher": "t", "of": {"kind": "dpo"}})
    with pytest.raises(DescriptionError, match="give them beside"):
        DistillationObjective(teacher="t", of=CausalObjective(balance_loss=0.1))
    objective = DistillationObjective(teacher="t")
    with pytest.raises(ValueError, match="gives 11 logits and the student 12"):
        objective.partners["teacher"].check(change_all(LLAMA, {"embedding.vocab": 11}), LLAMA)
    with pytest.raises(ValueError, match="the masked objective"):
        DistillationObjective(teacher="t", of=MaskedObjective()).check(LLAMA)


@pytest.fixture
def noisy(tmp_path, monkeypatch):
    """Letters of which each says which four are likely next: single successors tell little of their probabilities."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    chance = random.Random(3)
    following = {letter: chance.choices(LETTERS, k=4) for letter in LETTERS}
    text = ["a"]
    for _ in range(24_000):
        text.append(chance.choices(following[text[-1]], weights=(6, 3, 2, 1))[0])
    path = tmp_path / "text.txt"
    path.write_text("".join(text))
    return Run(
        steps=80, batch=2, length=32, data=Text(paths=(str(path),), tokenizer=Characters(), validation=0.15),
        optimiser=AdamW(learning_rate=1e-2), evaluation=Evaluation(every=1000, final_tokens=4000),
        plan=Plan(precision="fp32", compile="off"), architecture=LLAMA,
    )  # fmt: skip


def final(directory) -> dict:
    return [row for row in read_metrics(directory) if row["kind"] == "validation"][-1]


def test_a_distilled_student_beats_one_alone(noisy, tmp_path):
    quiet = Console(quiet=True)
    train(noisy.but(steps=150, batch=8, seed=5), tmp_path / "teacher", console=quiet)
    taught = noisy.but(objective=DistillationObjective(teacher=str(tmp_path / "teacher"), alpha=0.9, temperature=1.0))
    train(noisy, tmp_path / "alone", console=quiet)
    train(taught, tmp_path / "taught", console=quiet)
    teacher, alone, student = (final(tmp_path / name) for name in ("teacher", "alone", "taught"))
    assert student["loss"] < alone["loss"] - 0.08
    assert student["metrics"]["teacher_loss"] == pytest.approx(teacher["loss"], abs=0.05)


def test_as_much_is_held_out_as_the_inner_objective_needs(tmp_path, monkeypatch):
    """One record of chats is enough, and of running text two tokens: a token and the one that is predicted from it."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    turns = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    for name in ("given", "held-out"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(turns))
        (tmp_path / f"{name}.txt").write_text("a")
    model = change_all(LLAMA, {"embedding.vocab": 261})
    for of, kind, suffix, least in ((InstructionObjective(), Chats, "jsonl", 1), (CausalObjective(), Text, "txt", 2)):
        objective = DistillationObjective(teacher="t", of=of)
        train_on, held_out = ((str(tmp_path / f"{name}.{suffix}"),) for name in ("given", "held-out"))
        data = kind(paths=train_on, validation_paths=held_out, tokenizer=Bytes())
        run = Run(steps=1, batch=1, length=8, data=data, architecture=model, objective=objective)
        assert len(corpus_of(run).validation) == objective.sizes.least_held_out == least


def test_a_teacher_of_other_tokens_is_refused(noisy, tmp_path):
    quiet, other = Console(quiet=True), tmp_path / "other.txt"
    train(noisy.but(steps=1), tmp_path / "teacher", console=quiet)
    other.write_text("klmnopqrst" * 2000)
    taught = noisy.but(
        data=noisy.data.but(paths=(str(other),)), objective=DistillationObjective(teacher=str(tmp_path / "teacher"))
    )
    with pytest.raises(UserError, match=r"token 0 is 'a' there, and 'k' in the data; set data.tokenizer"):
        train(taught, tmp_path / "taught", console=quiet)


def test_a_resumed_student_needs_no_teacher_directory(noisy, tmp_path):
    quiet = Console(quiet=True)
    train(noisy.but(steps=1), tmp_path / "teacher", console=quiet)
    taught = noisy.but(steps=3, objective=DistillationObjective(teacher=str(tmp_path / "teacher")))
    train(taught, tmp_path / "taught", console=quiet)
    (tmp_path / "teacher").rename(tmp_path / "gone")
    resume(tmp_path / "taught", {"steps": 5}, console=quiet)
    assert final(tmp_path / "taught")["step"] == 5
