"""A model that was trained further beside what it was: its loss on held-out data, its answers, and how it goes on with text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

import anyformer as af
from anyformer.cli.ending import finish
from anyformer.data import Chats, Text, TokenizerFile
from anyformer.objectives import InstructionObjective
from anyformer.plan import Plan
from anyformer.training import AdamW, Evaluation, Run, Trained, train
from text.chat.folders import LOGICS, plain, write_model

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> Trained:
    """A run on chats that ask for the next letter, from a model that knows nothing."""
    folder = tmp_path_factory.mktemp("tuned")
    write_model(folder, plain(LOGICS["alternating"]))
    turns = [
        [{"role": "user", "content": f"{LETTERS[n % 9]}{n}"}, {"role": "assistant", "content": LETTERS[n % 9 + 1]}]
        for n in range(90)
    ]
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in turns))
    data = Chats(paths=(str(folder / "chats.jsonl"),), tokenizer=TokenizerFile(path=str(folder / "model")), validation=0.2)
    run = Run(
        steps=30, batch=8, length=48, data=data, objective=InstructionObjective(), optimiser=AdamW(learning_rate=1e-2),
        evaluation=Evaluation(every=200), plan=Plan(precision="fp32", compile="off"),
        architecture=af.architecture(folder / "model"), start_from=str(folder / "model"),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYFORMER_CACHE", str(folder / "cache"))
        return train(run, folder / "run", console=Console(quiet=True))


def test_the_loss_before_is_that_of_a_run_of_no_use(tuned, tmp_path):
    assert tuned.before is not None
    assert tuned.validation is not None
    assert tuned.before.loss > tuned.validation.loss + 0.5
    begun = tuned.before.model.state_dict()
    assert any(not value.equal(begun[name]) for name, value in tuned.model.state_dict().items())


def test_loss_and_answers_are_printed_side_by_side(tuned, capsys):
    finish(tuned)
    said = capsys.readouterr().out
    assert f"before this training: {tuned.before.loss:.4f}" in said
    assert "answers to held-out questions" in said
    assert len(tuned.prompts) == 3
    assert all(f" {prompt} " in said for prompt in tuned.prompts)


def test_a_run_from_nothing_has_no_before(tuned, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(Path(tuned.directory).parent / "cache"))
    from anyformer.training import load_run

    run = load_run(Path(tuned.directory) / "run.toml").but(start_from=None, steps=1)
    assert train(run, tmp_path / "run", console=Console(quiet=True)).before is None


def test_text_goes_on_side_by_side_too(tuned, tmp_path, monkeypatch, capsys):
    folder = Path(tuned.directory).parent
    monkeypatch.setenv("ANYFORMER_CACHE", str(folder / "cache"))
    (folder / "text.txt").write_text("one two three four five six seven eight nine ten\n" * 200)
    data = Text(paths=(str(folder / "text.txt"),), tokenizer=TokenizerFile(path=str(folder / "model")), validation=0.2)
    run = Run(
        steps=30, batch=8, length=32, data=data, optimiser=AdamW(learning_rate=1e-2), evaluation=Evaluation(every=200),
        plan=Plan(precision="fp32", compile="off"), architecture=af.architecture(folder / "model"),
        start_from=str(folder / "model"), sample="one two",
    )  # fmt: skip
    trained = train(run, tmp_path / "run", console=Console(quiet=True))
    assert trained.before.loss > trained.validation.loss + 0.5
    finish(trained)
    said = capsys.readouterr().out
    assert f"before this training: {trained.before.loss:.4f}" in said
    head = said[said.index("how held-out texts go on") :].splitlines()[2]
    assert [word for word in ("text", "before", "after") if word in head] == ["text", "before", "after"]
    assert "one two" in said
