"""Runs that start from the weights of another model: what is taken, what is named, what is refused."""

from __future__ import annotations

import io
import shutil

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import anyformer as af
from anyformer import checkpoint
from anyformer.checkpoint import CheckpointError
from anyformer.cli import app
from anyformer.data import BytePairs, Bytes
from anyformer.describe import UserError, change_all, to_toml
from anyformer.training import load_run, read_run, resume, train
from anyformer.training.run import started as started_from
from anyformer.training.starting import take
from anyformer.tuning import Lora, Tuning

QUIET = Console(quiet=True)


@pytest.fixture
def base(tiny, tmp_path):
    """The directory of a run that was trained."""
    train(tiny.but(steps=4, checkpoints=tiny.checkpoints.but(every=4)), tmp_path / "base", console=QUIET)
    return tmp_path / "base"


def started(tiny, base, **changes):
    return tiny.but(start_from=str(base), steps=1, **changes)


def report(run, directory) -> str:
    console = Console(file=io.StringIO(), width=1000)
    train(run, directory, console=console)
    said = console.file.getvalue().splitlines()
    at = next(i for i, line in enumerate(said) if line.startswith("start from"))
    return "\n".join([said[at], *(line for line in said[at + 1 : at + 4] if line.startswith("  "))])


def first_loss(directory):
    from anyformer.training.journal import read_metrics

    return read_metrics(directory)[0]["loss"]


def test_all_weights_are_taken_where_all_fit(tiny, base, tmp_path):
    said = report(started(tiny, base), tmp_path / "run")
    model, _ = af.load(base)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert said == f"start from {base}: took {len(list(model.parameters()))} tensors, {count:,} parameters"
    train(tiny.but(steps=1), tmp_path / "fresh", console=QUIET)
    assert first_loss(tmp_path / "run") < first_loss(tmp_path / "fresh")


def test_a_run_is_started_with_the_tokenizer_of_its_source(tiny, base):
    run = tiny.but(data=tiny.data.but(tokenizer=BytePairs(vocab=257)))
    begun = started_from(run, str(base))
    assert begun.start_from == str(base)
    assert begun.data.tokenizer.path.startswith(str(base))
    assert begun.data.but(tokenizer=run.data.tokenizer) == run.data


def test_how_much_learns_is_said_where_not_all_does(tiny, tmp_path):
    said = {}
    for name, tuning in (("all", Tuning()), ("adapter", Tuning(adapter=Lora(rank=2)))):
        console = Console(file=io.StringIO(), width=1000)
        train(tiny.but(steps=1, tuning=tuning), tmp_path / name, console=console)
        said[name] = console.file.getvalue()
    assert "parameters learn" not in said["all"]
    assert "parameters learn" in said["adapter"]


def test_what_does_not_fit_is_named(tiny, base, tmp_path):
    changes = {"decoder.layer.feedforward.width": 40, "decoder.layer.attention.kv_heads": 4, "head.tied": False}
    run = change_all(started(tiny, base), changes)
    said = report(run, tmp_path / "run").splitlines()
    assert said[0].startswith(f"start from {base}: took ")
    assert said[1] == "  new: head.weight"
    assert "shape differs, so new: decoder.layers.0.attention.sublayer.key.weight 16 x 32 there, 32 x 32 here" in said[2]
    assert said[2].endswith("and 4 more")


def test_weights_that_are_not_used_are_named(tiny, base):
    smaller = change_all(tiny, {"decoder.order": "layer"})
    _, tokenizer = af.load(base)
    model = af.build(smaller.architecture)
    taken = take(model, str(base), tokenizer)
    assert not taken.new
    assert not taken.shapes
    assert all(name.startswith("decoder.layers.1.") for name in taken.unused)
    assert "  not used: decoder.layers.1." in "\n".join(taken.lines())
    given, _ = af.load(base)
    assert all(torch.equal(parameter, given.get_parameter(name)) for name, parameter in model.named_parameters())


def test_a_file_needs_neither_architecture_nor_tokenizer(tiny, base, tmp_path):
    """Both are those of the model that it starts from, whose directory is beside the file."""
    table = to_toml(tiny.but(start_from="base", steps=2)).split("[architecture]")[0]
    table = table.replace('[data.tokenizer]\nkind = "bytes"\n', "")
    assert "tokenizer" not in table
    (tmp_path / "run.toml").write_text(table)
    run = load_run(tmp_path / "run.toml")
    assert run.architecture == tiny.architecture
    assert run.data.tokenizer.path.startswith(str(base))
    assert af.architecture(tmp_path / "run.toml") == tiny.architecture
    train(run, tmp_path / "run", console=QUIET)
    assert read_run(tmp_path / "run").data.tokenizer.path == str(tmp_path / "run")


def test_a_run_goes_on_without_what_it_started_from(tiny, base, tmp_path):
    """To the same bits, the tokenizer's file included."""
    table = to_toml(started(tiny, base, tuning=Tuning(adapter=Lora(rank=2))).but(steps=8))
    (tmp_path / "run.toml").write_text(table.replace('[data.tokenizer]\nkind = "bytes"\n', ""))
    train(tmp_path / "run.toml", tmp_path / "run", console=QUIET)
    last = checkpoint.directory_of(tmp_path / "run", 8)
    before = (last / "adapter.safetensors").read_bytes()
    shutil.rmtree(last)
    shutil.rmtree(base)
    resume(tmp_path / "run", console=QUIET)
    assert (last / "adapter.safetensors").read_bytes() == before


def test_a_hugging_face_directory_is_a_start(tiny, base, tmp_path):
    plain = change_all(tiny, {"decoder.layer.feedforward.multiplier": 1.0, "decoder.dropout": 0.0})
    train(plain.but(steps=4), tmp_path / "plain", console=QUIET)
    model, tokenizer = af.load(tmp_path / "plain")
    af.export(model, tmp_path / "exported", tokenizer=tokenizer)
    there, here = (
        train(started(plain, source), tmp_path / f"from-{source.name}", console=QUIET)
        for source in (tmp_path / "plain", tmp_path / "exported")
    )
    assert first_loss(there.directory) == first_loss(here.directory)


def test_other_tokens_are_refused(tiny, base, tmp_path):
    run = started(tiny, base, data=tiny.data.but(tokenizer=BytePairs(vocab=257)))
    with pytest.raises(UserError, match=r"was trained with other tokens .* leave data.tokenizer out to take"):
        train(run, tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run" / "run.toml").exists()
    assert started(tiny, base).data.tokenizer == Bytes(), "the same tokens under another name are no other tokens"


def test_a_model_of_which_nothing_fits_is_refused(tiny, base, tmp_path):
    other = change_all(tiny, {"architecture.width": 48, "decoder.layer.attention.head_width": 12})
    with pytest.raises(UserError, match=r"no weight of .* fits .*\(there decoder-only of width 32, here .* 48\)"):
        train(started(other, base), tmp_path / "run", console=QUIET)


def test_a_damaged_checkpoint_is_the_usual_error(tiny, base, tmp_path):
    file = checkpoint.directory_of(base, 4) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"every checkpoint is damaged: .*truncated"):
        train(started(tiny, base), tmp_path / "run", console=QUIET)


def test_a_start_that_is_not_there_is_refused(tiny, tmp_path):
    (tmp_path / "run.toml").write_text(to_toml(started(tiny, "nowhere")))
    with pytest.raises(UserError, match="start_from: nowhere: no such directory"):
        load_run(tmp_path / "run.toml")


def test_from_the_shell(tiny, base, text, tmp_path):
    """No architecture is named, and what learns is an adapter."""
    found = CliRunner().invoke(app, [
        "train", "--start-from", str(base), "--data", str(text), "--out", str(tmp_path / "run"), "--set", "steps=2",
        "--set", 'tuning.adapter={kind="lora",rank=2}', "--set", "evaluation.baseline=false", "--set", "plan.compile=off",
        "--set", "length=32",
    ])  # fmt: skip
    assert found.exit_code == 0, found.output
    assert f"start from {base}: took" in found.output
    assert "parameters learn" in found.output
    run = read_run(tmp_path / "run")
    assert (run.architecture, run.tuning.adapter.rank) == (tiny.architecture, 2)
