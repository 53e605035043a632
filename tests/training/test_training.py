"""Training: it learns, it is the same however it is cut, and it stops cleanly when something is wrong."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import threading
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import DescriptionError, Notice, UserError, change, change_all, from_toml, parse_assignment, to_toml
from anyformer.loading import load
from anyformer.training import NonFiniteError, Run, RunDirectoryError, load_run, read_run, resume, train
from anyformer.training import trainer as trainer_module
from anyformer.training.evaluate import batches
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import read_metrics
from anyformer.training.optimiser import build_optimiser
from anyformer.training.parallel import Alone
from anyformer.training.precision import Host
from anyformer.training.step import Updates, locate

QUIET = Console(quiet=True)


def weights(trained):
    return {name: parameter.detach().clone() for name, parameter in trained.model.named_parameters()}


def losses(directory):
    return [row["loss"] for row in read_metrics(directory) if row["kind"] == "train"]


def same(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.usefixtures("drawn_curves")
def test_it_learns_and_leaves_a_whole_directory(tiny, tmp_path):
    run = change_all(tiny, {"steps": 60, "evaluation.baseline": True, "evaluation.every": 30, "checkpoints.every": 30})
    trained = train(run, tmp_path / "run", console=QUIET)
    assert trained.finished
    found = losses(tmp_path / "run")
    assert found[0] == pytest.approx(math.log(257), abs=0.3)
    assert trained.validation.loss < 3.5
    assert trained.validation.bits_per_byte == pytest.approx(trained.validation.loss / math.log(2))
    assert trained.baseline[1] < 3
    assert (tmp_path / "run" / "loss.png").read_bytes()[:4] == b"\x89PNG"
    assert read_run(tmp_path / "run") == change(run, "plan", trained.model.plan)
    facts = json.loads((tmp_path / "run" / "environment.json").read_text())
    # A wheel's own version may leave out what it is built for.
    assert facts["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]


@pytest.mark.parametrize(("tokens", "windows"), [(64, 2), (65, 3)])
def test_the_last_evaluation_reads_whole_windows_that_hold_its_tokens(tiny, tmp_path, tokens, windows):
    run = change_all(tiny, {"steps": 1, "evaluation.final_tokens": tokens})
    evaluated = train(run, tmp_path / "run", console=QUIET).validation
    assert (evaluated.seen, evaluated.count) == (windows * 32, windows * 32)


def test_accumulation_does_not_change_the_update(tiny, tmp_path):
    one = train(change(tiny, "accumulation", 1), tmp_path / "one", console=QUIET)
    four = train(change(tiny, "accumulation", 4), tmp_path / "four", console=QUIET)
    torch.testing.assert_close(losses(tmp_path / "one"), losses(tmp_path / "four"), rtol=1e-4, atol=1e-5)
    for name, value in weights(one).items():
        torch.testing.assert_close(value, weights(four)[name], rtol=1e-3, atol=1e-4)


def test_two_runs_of_one_seed_are_equal_to_the_bit_and_another_seed_is_not(tiny, tmp_path):
    runs = [train(change(tiny, "seed", seed), tmp_path / str(i), console=QUIET) for i, seed in enumerate((0, 0, 1))]
    assert same(weights(runs[0]), weights(runs[1]))
    assert not same(weights(runs[0]), weights(runs[2]))


def test_after_an_update_gradients_take_no_memory(tiny):
    trainer = trainer_module.Trainer.start(tiny, corpus_of(tiny), Host(torch.device("cpu"), {"fp32": 1e9}))
    trainer.updates.update(trainer.micro_batches(0), trainer.rate(0))
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_an_evaluation_tells_how_far_it_is(tiny):
    trainer = trainer_module.Trainer.start(tiny, corpus_of(tiny), Host(torch.device("cpu"), {"fp32": 1e9}))
    told = []
    assert trainer.evaluate(12, told.append).seen == 12 * 32
    assert told == [4 * 32, 8 * 32, 12 * 32], "after each batch of 4 rows"


def test_replicas_without_a_batch_of_their_own_compute_the_last_again(tiny):
    """Three batches for two replicas: of the second pair one does not count."""
    feed = trainer_module.Trainer.start(tiny, corpus_of(tiny), Host(torch.device("cpu"), {"fp32": 1e9})).held_out
    every = [examples.rows.tolist() for examples in feed.once(12)]
    assert len(every) == 3
    found = [
        [(examples.rows.tolist(), counts) for examples, counts in batches(feed, 12, Alone(replica=number, replicas=2))]
        for number in (0, 1)
    ]
    assert found[0] == [(every[0], True), (every[2], True)]
    assert found[1] == [(every[1], True), (every[2], False)]


@pytest.mark.parametrize(("changes", "says"), [({}, 1), ({"plan.compile": "off"}, 0)])
def test_compiling_is_said_before_it_is_waited_for(tiny, tmp_path, monkeypatch, changes, says):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    console = Console(file=io.StringIO(), width=200)
    train(change_all(tiny, {"steps": 1, "plan.compile": "on", **changes}), tmp_path / "run", console=console)
    assert console.file.getvalue().count("compiling the step") == says


def test_only_matrices_decay(tiny):
    from anyformer.model.transformer import build

    model = build(tiny.architecture)
    decayed, free = build_optimiser(tiny.optimiser, model).param_groups
    assert {p.dim() for p in decayed["params"]} == {2}
    assert {p.dim() for p in free["params"]} == {1}
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert sum(p.numel() for g in (decayed, free) for p in g["params"]) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_ctrl_c_saves_and_resuming_gives_the_same_weights(tiny, tmp_path, stop, monkeypatch):
    whole = train(tiny, tmp_path / "whole", console=QUIET)
    real = Updates.update

    def interrupting(self, batch, *more):
        if batch.step == stop:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, batch, *more)

    assert threading.current_thread() is threading.main_thread()
    monkeypatch.setattr(Updates, "update", interrupting)
    halted = train(tiny, tmp_path / "halted", console=QUIET)
    monkeypatch.setattr(Updates, "update", real)
    assert not halted.finished
    assert (halted.step, halted.exit_code) == (stop, 130)
    resumed = resume(tmp_path / "halted", console=QUIET)
    assert resumed.finished
    assert same(weights(whole), weights(resumed))
    assert losses(tmp_path / "halted") == losses(tmp_path / "whole")


def test_a_damaged_checkpoint_is_skipped_and_named(tiny, tmp_path, call):
    whole = train(tiny, tmp_path / "run", console=QUIET)
    for step in checkpoint.steps(tmp_path / "run")[-1:]:
        path = checkpoint.directory_of(tmp_path / "run", step) / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(Notice, match=r"skipping a damaged checkpoint: .*step-00000008.*truncated"):
        load(tmp_path / "run")
    generated = call("generate", "run", "def", "-n", "1", cwd=tmp_path)
    assert generated.returncode == 0
    assert re.match(r"anyformer: skipping a damaged checkpoint: .*truncated", generated.stderr)
    console = Console(record=True, width=300, file=open(os.devnull, "w"))  # noqa: SIM115
    again = resume(tmp_path / "run", console=console)
    assert "truncated" in console.export_text()
    assert same(weights(whole), weights(again))


def test_a_run_is_led_to_export_and_export_to_transformers(tiny, tmp_path, call):
    train(tiny, tmp_path / "run", console=QUIET)
    for words in (("verify", "run"), ("import", "run", "made")):
        assert "this is a run: export it first with anyformer export run" in call(*words, cwd=tmp_path).stderr
    exported = call("export", "run", "made", cwd=tmp_path)
    assert "from_pretrained('made', trust_remote_code=True)" in exported.stdout
    name = re.search(r"from (\S+) import (\w+)", exported.stdout)
    assert hasattr(import_module(name[1]), name[2])
    assert "without weights; train it first" in call("generate", "gpt2", "hi", cwd=tmp_path).stderr


def test_a_tokenizer_chosen_for_a_small_vocabulary_is_said_with_the_remedy(text, capsys):
    from anyformer.cli.train import resolve_run

    resolve_run("gpt2", (str(text),), {}, tiny=True)
    assert "tokenizer: bytes, because the vocabulary is small" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"nothing is called 'vocab'(?s:.*)data\.tokenizer=\{kind=\"byte_pairs\",vocab=512\}"):
        resolve_run("gpt2", (str(text),), {"data.tokenizer.vocab": 512}, tiny=True)
    whole = dict(parse_assignment(each) for each in ('data.tokenizer={kind="byte_pairs",vocab=512}', "embedding.vocab=512"))
    assert resolve_run("gpt2", (str(text),), whole, tiny=True).data.tokenizer.vocab == 512


def test_an_empty_file_and_one_document_are_told_in_plain_words(tiny, text):
    assert "train: " in corpus_of(tiny).summary()
    assert "1 documents" not in corpus_of(tiny).summary()
    text.write_text("")
    with pytest.raises(UserError, match=r"the file is empty; give one with text"):
        corpus_of(tiny)


def test_a_text_that_is_too_short_is_told_so(tiny, text):
    text.write_text("abcdef")
    with pytest.raises(UserError, match=r"too short: it has 6 tokens, and about 37 are needed, for one window of length 32"):
        corpus_of(tiny)
    with pytest.raises(UserError, match=r"set data\.validation above 0"):
        corpus_of(change(tiny, "data.validation", 0.0))


def test_fewer_steps_than_are_done_are_refused_before_anything_is_said(tiny, tmp_path):
    train(tiny, tmp_path / "run", console=QUIET)
    console = Console(record=True, width=300, file=io.StringIO())
    with pytest.raises(UserError, match=r"8 updates are done, but steps = 4"):
        resume(tmp_path / "run", {"steps": 4}, console=console)
    assert "changed" not in console.export_text()
    resume(tmp_path / "run", {"steps": 9}, console=console)
    assert "changed after step 8: steps: 8 -> 9" in console.export_text()


def test_other_data_is_refused_on_resume(tiny, tmp_path, text):
    train(tiny, tmp_path / "run", console=QUIET)
    text.write_text(text.read_text()[:-900])
    with pytest.raises(UserError, match=r"other data.*(?s:.*)text\.py: its text changed"):
        resume(tmp_path / "run", console=QUIET)


def test_a_run_is_never_started_over_another(tiny, tmp_path):
    train(tiny, tmp_path / "run", console=QUIET)
    with pytest.raises(RunDirectoryError, match="--resume"):
        train(tiny, tmp_path / "run", console=QUIET)
    with pytest.raises(RunDirectoryError, match=r"no run\.toml"):
        resume(tmp_path / "nowhere", console=QUIET)


def test_a_loss_that_is_not_finite_stops_before_the_update(tiny, tmp_path, monkeypatch):
    real, trained = Updates.update, []

    def poison(self, batch, *more):
        if batch.step == 5:
            trained.append(self.model)
            ffn = self.model.decoder.layers[1].feedforward.sublayer
            with torch.no_grad():
                for projection in (ffn.up, ffn.down):
                    projection.weight.fill_(1e30)
        return real(self, batch, *more)

    monkeypatch.setattr(Updates, "update", poison)
    with pytest.raises(NonFiniteError, match=r"step 5.*decoder\.layers\.1\.feedforward.*Nothing was updated"):
        train(tiny, tmp_path / "run", console=QUIET)
    assert all(parameter.grad is None for parameter in trained[0].parameters()), "their memory is free"
    assert len(losses(tmp_path / "run")) == 5
    assert checkpoint.latest(tmp_path / "run")[0] is not None


def test_compiled_code_is_blamed_where_the_plain_step_is_finite(tiny, tmp_path, monkeypatch):
    def wrong(graph, inputs, **options):
        return lambda *given: tuple(each * float("nan") if each.is_floating_point() else each for each in graph(*given))

    run = tiny.but(plan=tiny.plan.but(compile="on"))
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=wrong))
    with pytest.raises(NonFiniteError, match=r"step 0.*Computed without torch\.compile both are finite.*plan\.compile = 'off'"):
        train(run, tmp_path / "run", console=QUIET)


def test_a_weight_that_is_not_finite_is_named(tiny):
    from anyformer.model.transformer import build

    model = build(tiny.architecture)
    with torch.no_grad():
        model.decoder.layers[0].attention.sublayer.key.weight[0, 0] = float("nan")
    assert "decoder.layers.0.attention.sublayer.key.weight" in locate(model, [])


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("minutes", 3.0, "either steps or minutes"),
        ("accumulation", 3, "accumulation must divide batch"),
        ("batch", 0, "batch"),
        ("schedule.kind", "cosin", "cosine"),
        ("optimiser.betas", [0.9], "betas"),
        ("data.paths", [], "paths"),
        ("architecture.head", None, "head"),
        ("decoder.layer.attention.mask", {"kind": "bidirectional"}, r"lets every token see.*'bidirectional'.*of the past only"),
        ("decoder.layer.attention.mask", {"kind": "window", "size": 4, "after": 2}, "lets every token see"),
        (
            "decoder.layer.attention.mask",
            {"kind": "any_of", "masks": [{"kind": "causal"}, {"kind": "prefix"}]},
            "has no prefix.*never be trained",
        ),
        ("plan.precision", "fp9", "precision"),
    ],
)
def test_a_senseless_run_is_refused(tiny, path, value, words):
    with pytest.raises(DescriptionError, match=words):
        change(tiny, path, value)


def test_a_vocabulary_too_small_for_the_tokenizer_is_refused_before_work(tiny, tmp_path):
    with pytest.raises(DescriptionError, match=r"257 tokens.*embedding 200 rows.*embedding\.vocab=257"):
        train(change(tiny, "embedding.vocab", 200), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_a_run_file_may_name_an_architecture_and_change_it(tiny, tmp_path):
    assert from_toml(Run, to_toml(tiny)) == tiny
    path = tmp_path / "run.toml"
    path.write_text(
        'steps = 5\narchitecture = "llama-12m"\n[data]\npaths = ["x.txt"]\n[set]\n"decoder.order" = "layer*2"\n"width" = 192\n'
    )
    run = load_run(path, {"batch": 32})
    assert (run.architecture.decoder.depth, run.architecture.width, run.batch) == (2, 192, 32)
    path.write_text('steps = 5\narchitecture = "llama-13m"\n[data]\npaths = ["x.txt"]\n')
    with pytest.raises(DescriptionError, match="did you mean"):
        load_run(path)


def test_one_of_several_processes_without_a_launcher_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="WORLD_SIZE = 2, and no launcher says where the other processes are"):
        train(tiny, tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_no_held_out_text_is_refused_before_work(tiny, tmp_path):
    with pytest.raises(UserError, match="nothing is held out"):
        train(change(tiny, "data.validation", 0.0), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_a_wrong_set_is_blamed_and_not_the_recipe():
    """The recipe's architecture fits its objective only as its [set] changes it, so both are made at once."""
    with pytest.raises(DescriptionError) as refused:
        load_run(Path(__file__).parents[2] / "recipes" / "token-labels.toml", {"sample.tokens": 3})
    assert str(refused.value) == "sample.tokens: sample is absent: set it as a whole first"
