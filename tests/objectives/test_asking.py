"""A teacher that is asked before the first update: what its answers depend on, their files, and runs that read them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.catalogue import architecture
from anyformer.data import IGNORED
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.files import PlaceError
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, DistillationObjective, Examples, MaskedObjective
from anyformer.plan import Plan
from anyformer.training import Checkpoints, Evaluation, Run, resume, teacher, train
from anyformer.training.answers import AnswerFile, Answers, AnswersError, gaps, token_type, write_part
from anyformer.training.held_out import corpus_of
from anyformer.training.instability import RewindSpikes, SkipBatch
from anyformer.training.journal import read_metrics
from anyformer.training.precision import Host
from anyformer.training.priced import step_of
from anyformer.training.teacher import answered
from anyformer.training.trainer import Trainer

CPU = torch.device("cpu")
HOST = Host(CPU, {"fp32": 1e9})
QUIET = Console(quiet=True)
TINY = architecture("llama-2-7b", tiny=True)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    checkpoint.save(build(TINY, seed=99), tmp_path / "teacher")
    (tmp_path / "text.txt").write_text("".join(f"the {n} words of {n * n % 97} say {n % 7} things. " for n in range(300)))
    return Run.parse(
        {
            "steps": 4, "batch": 4, "accumulation": 2, "length": 16, "architecture": TINY.plain(),
            "data": {"paths": ["text.txt"], "tokenizer": {"kind": "bytes"}, "validation": 0.2},
            "objective": {"kind": "distillation", "teacher": "teacher", "kept": 5},
            "plan": Plan(precision="fp32", compile="off").plain(),
            "evaluation": Evaluation(every=100, final_tokens=64).plain(), "checkpoints": Checkpoints(every=2).plain(),
        }
    )  # fmt: skip


@pytest.fixture
def loaded(monkeypatch) -> list[str]:
    """The paths of the models that were loaded to be asked."""
    paths, load = [], teacher.at_path

    def watched(name, partner, *more):
        paths.append(partner.path)
        return load(name, partner, *more)

    monkeypatch.setattr(teacher, "at_path", watched)
    return paths


def started(run: Run, **more) -> tuple[Trainer, list[str]]:
    said: list[str] = []
    return Trainer.start(run, corpus_of(run), HOST, say=said.append, **more), said


def folders(tmp_path) -> set[str]:
    return {path.name for path in (tmp_path / "cache").glob("answers-*")}


@pytest.mark.parametrize("inner", [CausalObjective(), MaskedObjective()])
def test_all_tokens_kept_learn_as_from_the_teacher_itself(run, inner, tmp_path):
    if inner == MaskedObjective():
        model = architecture("bert-base-uncased", tiny=True)
        checkpoint.save(build(model, seed=99), tmp_path / "teacher")
        run = run.but(architecture=model, objective=MaskedObjective())
    objectives = [
        DistillationObjective(teacher="teacher", alpha=0.7, of=inner, kept=k) for k in (None, run.architecture.outputs)
    ]
    found = []
    for objective in objectives:
        trainer, _ = started(run.but(objective=objective))
        for step in (0, 3):
            loss, _ = trainer.passes.add_gradients(replace(trainer.micro_batches(step), seed=0, step=0))
        found.append((torch.tensor(loss), [p.grad for p in trainer.model.parameters() if p.grad is not None]))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)


def test_the_teacher_is_asked_once_and_not_held(run, loaded, tmp_path):
    first, said = started(run)
    assert first.partners == {}
    assert loaded == ["teacher"]
    assert any("256 targets of 16 rows x 30 bytes = 7.68 kB" in line for line in said), said
    assert step_of(run).seconds == ()
    second, said = started(run)
    assert loaded == ["teacher"]
    assert any("16 of 16 rows are reused" in line for line in said), said
    taught = [one.taught.exp().sum() for step in range(4) for one in second.micro_batches(step).pieces]
    assert said[-1] == f"the teacher's kept tokens: 5, which hold {float(sum(taught)) / 256:.1%} of its probability"
    assert all(first.micro_batches(step).data == second.micro_batches(step).data for step in range(4))
    assert len(folders(tmp_path)) == 1


def test_the_targets_foretold_are_those_of_the_rows(run, tmp_path):
    """Which differ from row to row, and are all counted where the rows are few."""
    model = architecture("bert-base-uncased", tiny=True)
    checkpoint.save(build(model, seed=99), tmp_path / "teacher")
    objective = DistillationObjective(teacher="teacher", of=MaskedObjective(), kept=5)
    trainer, said = started(run.but(architecture=model, objective=objective))
    targets = torch.cat([trainer.training.at(step).targets for step in range(4)])
    counts = (targets != IGNORED).sum(1)
    assert counts[0] != counts[1]
    assert any(f": {int(counts.sum())} targets of 16 rows" in line for line in said), said


def test_a_longer_run_asks_about_its_further_rows_alone(run, loaded):
    started(run)
    longer, said = started(run.but(steps=6))
    assert any("16 of 24 rows are reused" in line for line in said), said
    assert [(part.first, part.stop) for part in longer.answers.parts] == [(0, 16), (16, 24)]
    batch = longer.micro_batches(5).pieces[1]
    assert batch.taught.exp().sum(-1).max() <= 1 + 1e-6
    started(run.but(steps=2))
    assert len(loaded) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"objective.temperature": 3.0},
        {"objective.kept": 6},
        {"length": 17},
        {"data.isolate": True},
        {"teacher": 1},
    ],
)
def test_other_questions_have_other_files(run, loaded, tmp_path, change):
    started(run)
    if "teacher" in change:
        checkpoint.save(build(TINY, seed=98), tmp_path / "teacher")
    else:
        run = change_all(run, change)
    started(run)
    assert len(loaded) == len(folders(tmp_path)) == 2


def test_what_the_answers_do_not_depend_on_changes_no_file(run, loaded, tmp_path):
    started(run)
    (tmp_path / "teacher").rename(tmp_path / "elsewhere")
    same = {"objective.teacher": "elsewhere", "objective.alpha": 0.1, "batch": 8, "steps": 2, "optimiser.learning_rate": 1e-3}
    started(change_all(run, same))
    assert len(loaded) == len(folders(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "index"])
def test_a_damaged_file_is_named_and_asked_again(run, loaded, tmp_path, monkeypatch, damage):
    monkeypatch.setattr(teacher, "PART_BYTES", 16 * 30 * 6)  # rows of 16 targets of 30 bytes, six in a file
    whole, _ = started(run)
    parts = whole.answers.parts
    assert [(part.first, part.stop) for part in parts] == [(0, 6), (6, 12), (12, 16)]
    file = whole.answers.folder / ("index.json" if damage == "index" else parts[1].file)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "flipped":
        file.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    else:
        file.write_bytes(content[:-30])
    again, said = started(run)
    assert any(str(file) in line and "asked again" in line for line in said), said
    assert len(loaded) == 2
    assert file.read_bytes() == content
    assert again.answers.parts == parts


def test_a_file_that_changes_while_a_run_reads_it_is_named(run):
    trainer, _ = started(run)
    file = trainer.answers.folder / trainer.answers.parts[0].file
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(AnswersError, match=f"{file.name}: cannot be read"):
        trainer.micro_batches(0)
    shifted = replace(trainer.training.at(0), targets=torch.full((4, 16), IGNORED))
    started(run)
    with pytest.raises(AnswersError, match="has 16 answers about row 0, which has 0 targets"):
        trainer.answers.beside(shifted)


def test_an_interrupted_asking_goes_on(run, monkeypatch):
    monkeypatch.setattr(teacher, "PART_BYTES", 16 * 30 * 6)
    write, corpus = teacher.write_part, corpus_of(run)

    def stopped(folder, first, *more):
        if first == 12:
            raise KeyboardInterrupt
        return write(folder, first, *more)

    monkeypatch.setattr(teacher, "write_part", stopped)
    with pytest.raises(KeyboardInterrupt):
        Trainer.start(run, corpus, HOST)
    monkeypatch.setattr(teacher, "write_part", write)
    _, said = started(run)
    assert any("12 of 16 rows are reused" in line for line in said), said


def test_tokens_beyond_16_bits_are_kept(tmp_path):
    values, tokens = torch.tensor([[-0.5, -1.0], [-0.25, -3.0]]), torch.tensor([[69_999, 0], [65_536, 65_535]])
    part = write_part(tmp_path, 7, [0, 2], [values], [tokens], 70_000)
    targets = torch.tensor([[IGNORED] * 3, [4, IGNORED, 5]])
    made = Answers(tmp_path, (part,), "", 2).beside(Examples(targets.clamp(min=0), targets, None, torch.tensor([7, 8])))
    assert made.taught_tokens.tolist() == [[[0, 0]] * 3, [[69_999, 0], [0, 0], [65_536, 65_535]]]
    assert made.taught.tolist() == [[[0.0, 0.0]] * 3, [[-0.5, -1.0], [0.0, 0.0], [-0.25, -3.0]]]
    assert [token_type(vocab).itemsize for vocab in (65_535, 65_536)] == [2, 4]


def test_gaps_are_the_rows_that_no_part_has():
    def of(*runs, rows=20, most=8):
        return list(gaps([AnswerFile("", *run, "", 0, 0.0) for run in runs], rows, most))

    assert of() == [(0, 8), (8, 16), (16, 20)]
    assert of((0, 20)) == of((0, 30)) == []
    assert of((0, 5), (9, 12)) == [(5, 9), (12, 20)]
    assert of((25, 30)) == [(0, 8), (8, 16), (16, 20)]


def test_the_rows_of_batches_that_may_be_left_out_are_asked_about(run):
    assert run.batches == 4
    assert run.but(non_finite=SkipBatch(most=3)).batches == 7
    assert run.but(non_finite=SkipBatch(most=3), spikes=RewindSpikes(most=2)).batches == 4 + 3 + 2 * 2
    assert run.but(checkpoints=Checkpoints(every=50), spikes=RewindSpikes(most=2)).batches == 4 + 2 * 4
    trainer, _ = started(run.but(non_finite=SkipBatch(most=3)))
    assert trainer.answers is not None
    assert trainer.answers.parts[-1].stop == 7 * run.batch
    assert (
        trainer.updates.update(trainer.micro_batches(3, passed=3), trainer.rate(3)).data
        == trainer.answers.beside(trainer.training.at(6)).digest
    )


def test_a_run_goes_on_without_its_teacher_and_asks_no_other_one(run, tmp_path):
    train(run.but(steps=2), tmp_path / "taught", console=QUIET)
    (tmp_path / "teacher").rename(tmp_path / "gone")
    resume(tmp_path / "taught", {"evaluation.every": 1}, console=QUIET)
    with pytest.raises(UserError, match="teacher: no such directory"):
        resume(tmp_path / "taught", {"steps": 4}, console=QUIET)
    checkpoint.save(build(TINY, seed=98), tmp_path / "teacher")
    with pytest.raises(UserError, match="is another teacher than the one that this run began with"):
        resume(tmp_path / "taught", {"steps": 4}, console=QUIET)
    checkpoint.save(build(TINY, seed=99), tmp_path / "teacher")
    resume(tmp_path / "taught", {"steps": 4}, console=QUIET)
    rows = read_metrics(tmp_path / "taught")
    assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2, 3, 4]
    assert rows[-1]["metrics"].keys() == {"accuracy"}


def test_what_cannot_be_kept_is_refused(run, monkeypatch):
    with pytest.raises(DescriptionError, match="minutes do not say how many these are: set steps"):
        change_all(run, {"steps": None, "minutes": 1.0})
    with pytest.raises(DescriptionError, match=f"kept = 5000 is more than the {TINY.outputs} tokens"):
        change_all(run, {"objective.kept": 5000})
    corpus = corpus_of(run)
    monkeypatch.setattr(teacher, "free_memory", lambda device: 1000)
    with pytest.raises(UserError, match="and 1 kB are free: take a smaller teacher"):
        Trainer.start(run, corpus, HOST)
    for free in (5000, 7680):  # files have headers, too
        monkeypatch.setattr(teacher.shutil, "disk_usage", lambda path, free=free: type("Usage", (), {"free": free}))
        with pytest.raises(PlaceError, match=r"kB are free, and the teacher's answers need 7.68 kB \(256 targets"):
            Trainer.start(run, corpus, HOST)
    assert answered(run.but(objective=CausalObjective()), corpus, None, CPU, print) is None
