"""What `anyformer probe` tells: figures as counted by hand, maps that are the attention itself, heads and layers found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from anyformer import checkpoint
from anyformer.catalogue import architecture
from anyformer.data import IGNORED
from anyformer.describe import UserError, change_all
from anyformer.describe.value import subclasses
from anyformer.evaluation import open_subject
from anyformer.evaluation.intervals import share
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import EluPlusOne, Head, LinearAttention, RMSNorm, pre_norm
from anyformer.probing import fitting, lens, level_of, objective_of, probe, question
from anyformer.probing.levels import Accuracy, buckets
from anyformer.tasks import MQAR, Induction, Parity, TaskData, Transduction
from anyformer.training import Run, journal
from anyformer.training.held_out import corpus_of

TASK = {"kind": "mqar", "pairs": 3, "keys": 6, "values": 5}


def run_of(name: str, task=TASK, **changes) -> Run:
    objective = "task_seq2seq" if name.startswith("t5") else "task"
    return Run.parse(
        {
            "steps": 1, "batch": 4, "length": 16, "architecture": change_all(architecture(name, tiny=True), changes).plain(),
            "objective": {"kind": objective}, "data": {"kind": "task", "task": task, "held_out": 0.3},
            "plan": {"precision": "fp32", "compile": "off"},
        }
    )  # fmt: skip


def saved(folder: Path, run: Run) -> Path:
    """The directory of a run with one checkpoint of random weights."""
    folder.mkdir()
    journal.write_run(folder, run)
    model = build(run.architecture, run.plan, seed=0)
    checkpoint.save(model, checkpoint.directory_of(folder, 1), tokenizer=corpus_of(run).tokenizer)
    return folder


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("probed") / "run", run_of("llama-2-7b", **{"embedding.vocab": 40}))


def test_figures_are_those_counted_by_hand(directory):
    subject = open_subject(directory)
    asked = question(subject)
    feed = asked.feed(subject.model.architecture, 24, 40)
    level = level_of(subject.model, objective_of(subject.model.architecture), feed, 24)
    made = asked.data.drawn(np.arange(40), 0, 24, test=True)
    with torch.no_grad():
        said = subject.model(torch.from_numpy(made.tokens + 1)).argmax(-1).numpy() - 1
    right = (said == made.targets) & (made.targets != IGNORED)
    assert (level.targets.asked, level.targets.right) == (120, int(right.sum()))
    assert level.targets.chance == pytest.approx(0.2)
    places = np.nonzero(made.targets != IGNORED)[1]
    for what, buckets_of, numbers in (
        ("position", level.by_position, places),
        ("distance", level.by_distance, made.distances[made.targets != IGNORED]),
    ):
        assert sum(bucket.share.asked for bucket in buckets_of) == 120, what
        for bucket in buckets_of:
            here = (numbers >= bucket.first) & (numbers <= bucket.last)
            assert bucket.share.asked == here.sum()
            assert bucket.share.right == right[made.targets != IGNORED][here].sum()


def test_buckets_are_powers_of_two():
    numbers = np.array([0, 1, 2, 3, 4, 7, 9, 9])
    right = numbers < 5
    found = buckets(numbers, right, np.full(8, 0.25), np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    assert [(each.first, each.last, each.share.asked, each.share.right) for each in found] == [
        (0, 0, 1, 1), (1, 1, 1, 1), (2, 3, 2, 2), (4, 7, 2, 1), (8, 9, 2, 0),
    ]  # fmt: skip
    assert found[2].share.chance == 0.25
    assert found[2].share.rows == ((2, 2),)
    assert found[3].share.rows == ((1, 2),)


@pytest.mark.parametrize("together", [False, True])
def test_an_interval_holds_the_truth_as_often_as_it_says_though_targets_of_a_sequence_go_together(together):
    """40 sequences of 20 targets, each right with probability 0.7; together: a sequence is all right or all wrong."""
    random = np.random.default_rng(0)
    held = narrow = 0
    for _ in range(300):
        right = random.random((40, 1 if together else 20)) < 0.7
        rows = np.broadcast_to(right, (40, 20)).sum(1)
        found = Accuracy(800, int(rows.sum()), 0.0, tuple((int(one), 20) for one in rows)).interval
        held += found.low <= 0.7 <= found.high
        alone = Accuracy(800, int(rows.sum()), 0.0).interval
        narrow += alone.low <= 0.7 <= alone.high
    assert held >= 275
    assert (narrow < 150) == together  # what targets taken one by one would say


def test_the_interval_over_few_sequences_is_that_of_a_sample():
    """Of 2 sequences with 1 and 2 of 2 right the variance is 2 / (2 - 1) * 0.5 / 4^2 = 1 / 16, as of 3 targets alone."""
    reached = Accuracy(4, 3, 0.0, ((1, 2), (2, 2)))
    assert reached.interval == share(0.75 * 3, 3)


def test_the_interval_of_all_right_is_that_of_sequences():
    assert Accuracy(800, 800, 0.0, ((20, 20),) * 40).interval == Accuracy(40, 40, 0.0).interval


def test_lengths_are_asked_as_far_as_task_and_tables_go(tmp_path):
    subject = open_subject(saved(tmp_path / "run", run_of("gpt2", {"kind": "induction", "letters": 20})))
    asked = question(subject)
    table = subject.model.architecture.output_stack.max_length
    assert table is not None
    assert asked.lengths(subject.model.architecture) == (8, 16, 30)
    found = probe(subject.model, asked, (16, 31, table + 1), 4)
    assert [level.length for level in found.levels] == [16]
    assert "fills 30 positions at most" in found.refused[31]
    assert asked.feed(subject.model.architecture, 30, 4).length == 30


def test_a_task_is_the_runs_own_unless_another_is_named(directory):
    subject = open_subject(directory)
    own = question(subject)
    assert own.data.task == MQAR(pairs=3, keys=6, values=5)
    assert own.trained == 16
    other = question(subject, Parity())
    assert (other.data.task, other.trained, other.data.held_out) == (Parity(), None, 0.3)
    assert question(subject, MQAR()) == own, "a kind alone is the run's task of that kind"
    assert "parity" in {task.kind for task in fitting(subject)}
    assert "modular_addition" not in {task.kind for task in fitting(subject)}, "97 numbers are more than its vocabulary"
    with pytest.raises(UserError, match="symbols and 2 special tokens, and the embedding"):
        question(subject, MQAR(keys=64, values=64, pairs=4))


def test_held_out_sequences_are_those_that_the_run_holds_out(directory):
    subject = open_subject(directory)
    feed = question(subject).feed(subject.model.architecture, 16, 50)
    run = run_of("llama-2-7b")
    assert isinstance(run.data, TaskData)
    trained = {row.tobytes() for row in run.data.drawn(np.arange(2000), 0, 16, test=False).tokens}
    asked = {(row.numpy() - 1).tobytes() for examples in feed.once() for row in examples.tokens}
    assert len(asked) == 50
    assert not asked & trained


def test_two_inputs_are_asked_too(tmp_path):
    task = {"kind": "reversal", "letters": 5}
    subject = open_subject(saved(tmp_path / "run", run_of("t5-small", task)))
    found = probe(subject.model, question(subject), (8, 16), 6)
    assert [level.targets.asked for level in found.levels] == [24, 48]
    assert {type(task) for task in fitting(subject)} <= set(subclasses(Transduction))


def test_the_last_layer_of_the_lens_is_what_the_model_says(directory):
    subject = open_subject(directory)
    asked, model = question(subject), subject.model
    objective = objective_of(model.architecture)
    examples = next(iter(asked.feed(model.architecture, 16, 8).once()))
    found = lens(model, objective, examples)
    assert len(found.accuracy) == model.architecture.output_stack.depth
    level = level_of(model, objective, asked.feed(model.architecture, 16, 8), 16)
    assert found.accuracy[-1] == pytest.approx(level.targets.accuracy)
    with torch.no_grad():
        said = model(examples.tokens)[0].softmax(-1)
    places = list(found.positions)
    assert places == torch.nonzero(examples.targets[0] != IGNORED)[:, 0].tolist()
    wanted = said[places, examples.targets[0, places]]
    assert found.probabilities[-1] == pytest.approx(wanted.tolist(), rel=1e-5)
    assert len(found.probabilities) == len(found.accuracy)


def test_the_command_prints_tables_and_json_and_draws(directory, tmp_path, call):
    out = tmp_path / "pictures"
    asked = ["probe", str(directory), "--lengths", "12,24", "--sequences", "8"]
    shown = call(*asked, "--attention", "--lens", "--out", str(out))
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == "mqar: trained up to length 16; the value, at every key that comes again"
    heads = "length sequences accuracy 95 % interval chance whole answers 95 % interval chance"
    assert lines[1].split() == heads.split()
    assert [line.split()[0] for line in lines[2:4]] == ["12", "24"]
    assert "induction and previous-token scores" in shown.stdout
    at = lines.index("logit lens: accuracy after every layer")
    assert lines[at + 2].split()[0] == "0", "layers are counted from 0"
    names = {"mqar.png", "mqar-attention.png", "mqar-lens.png", "probe.json"}
    assert {path.name for path in out.iterdir()} == names
    table = json.loads(call(*asked, "--json").stdout)
    assert table["tasks"] == [
        {key: value for key, value in each.items() if key != "lens"}
        for each in json.loads((out / "probe.json").read_text())["tasks"]
    ]
    assert [level["length"] for level in table["tasks"][0]["levels"]] == [12, 24]
    assert table["tasks"][0]["levels"][0]["chance"] == pytest.approx(0.2)
    both = call("probe", str(directory), "--task", "parity", "--task", '{kind="copying",letters=3}', "--lengths", "8")
    assert both.returncode == 0, both.stderr
    assert "parity: not trained on it" in both.stdout
    assert "copying: not trained on it" in both.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "paritee"], "did you mean 'parity'"),
        (["--task", "modular_addition"], "98 symbols and 2 special tokens, and the embedding"),
        (["--lengths", "8,x"], "--lengths '8,x': give whole numbers with commas between"),
        (["--lengths", "0"], "--lengths '0'"),
    ],
)
def test_what_cannot_be_asked_is_refused(directory, call, options, message):
    shown = call("probe", str(directory), *options)
    assert shown.returncode == 2
    assert message in " ".join(shown.stderr.split())


def test_a_length_that_is_left_out_is_told(directory, call):
    shown = call("probe", str(directory), "--lengths", "4,12", "--sequences", "2")
    assert "length 4 is left out: the task mqar takes 9 positions at least" in shown.stdout


def test_induction_is_asked_where_no_task_was_trained(tmp_path):
    checkpoint.save(build(architecture("llama-2-7b", tiny=True), seed=0), tmp_path / "checkpoint")
    asked = question(open_subject(tmp_path / "checkpoint"))
    assert (asked.data.task, asked.trained) == (Induction(), None)


def test_a_model_without_attention_is_refused_before_any_work(tmp_path, call):
    run = run_of("llama-2-7b")
    mixer = LinearAttention(heads=2, feature_map=EluPlusOne(), eps=1e-6)
    model = run.architecture
    without = decoder_only(model.embedding, model.width, [pre_norm(RMSNorm(), mixer)], final_norm=RMSNorm(), head=Head())
    folder = saved(tmp_path / "run", run.but(architecture=without))
    shown = call("probe", str(folder), "--attention", "--out", str(tmp_path / "out"))
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "this model has no attention" in shown.stderr
    assert not (tmp_path / "out").exists()


def test_a_source_and_a_target_have_maps_but_no_induction_scores(tmp_path, call):
    folder = saved(tmp_path / "run", run_of("t5-small", {"kind": "reversal", "letters": 5}))
    out = tmp_path / "out"
    shown = call("probe", str(folder), "--attention", "--out", str(out), "--sequences", "4")
    assert shown.returncode == 0, shown.stderr
    assert (out / "reversal-attention.png").is_file()
    assert json.loads((out / "probe.json").read_text())["heads"] == []
