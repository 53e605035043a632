"""What a checkpoint is evaluated on: its own objective, tokens and classes, and all of the data."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from anyformer import huggingface
from anyformer.data import TokenizerFile
from anyformer.describe import UserError, change_all
from anyformer.evaluation import against, measure, open_subject, task_of
from anyformer.evaluation.measure import unit_losses
from anyformer.resolving import architecture
from anyformer.text import DataError
from anyformer.training import default_run, load_run
from anyformer.training.evaluate import evaluate
from anyformer.training.held_out import corpus_of


@pytest.fixture(scope="module")
def classified(make_run, tmp_path_factory):
    """A run on texts of three classes."""
    path = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    rows = [{"text": f"{'abc'[n % 3] * 4} {n}", "label": ["red", "green", "blue"][n % 3]} for n in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = architecture("bert-base-uncased", tiny=True, changes={"head": {"outputs": 3, "pool": "first"}})
    run = default_run(model, (str(path),))
    changes = {"length": 16, "batch": 4, "steps": 1, "minutes": None, "data.validation": 0.2}
    return make_run(0, run=change_all(run, changes))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return (str(path),)


def test_all_of_the_data_is_evaluated(first, tmp_path):
    """Other data than the run's, in its tokens and length, with nothing left out for training."""
    (tmp_path / "more.txt").write_text("def g(y):\n    return y\n" * 9)
    task = task_of(open_subject(first), (str(tmp_path / "more.txt"),), progress=False)
    assert (task.run.length, task.objective.kind) == (32, "causal")
    assert task.corpus.tokenizer.digest == task.subject.tokenizer.digest
    assert len(task.corpus.validation) == 23 * 9 + 1, "every byte and the end"
    evaluated = measure(task).evaluated
    assert evaluated.count == 23 * 9
    assert evaluated.perplexity == pytest.approx(math.exp(evaluated.loss))


def test_a_run_is_evaluated_on_what_it_held_out(first):
    task = task_of(open_subject(first), ())
    expected = corpus_of(load_run(first / "run.toml")).validation
    assert np.array_equal(task.corpus.validation.tokens[:], expected.tokens[:])
    assert measure(task).evaluated.count == len(expected) - 1


def test_changes_are_those_of_a_run(first, texts):
    task = task_of(open_subject(first), (str(texts),), {"length": 16, "data.isolate": True}, progress=False)
    assert (task.run.length, task.run.data.isolate) == (16, True)
    figures = measure(task).text
    assert figures.by_position[-1].last == 16


def test_other_checkpoints_have_the_usual_objective(first, texts, tmp_path):
    """A Hugging Face directory gives what the run does, at the length that is written in it."""
    subject = open_subject(first)
    huggingface.export(subject.model, tmp_path / "exported", tokenizer=subject.tokenizer, length=subject.length)
    exported = open_subject(tmp_path / "exported")
    assert (exported.run, exported.length) == (None, 32)
    one, other = (measure(task_of(each, (str(texts),), progress=False)).evaluated for each in (subject, exported))
    assert (one.count, one.loss) == (other.count, pytest.approx(other.loss, rel=1e-6))
    with pytest.raises(UserError, match="give --data PATH"):
        task_of(exported, ())


def test_objectives_of_masks_and_records_have_their_own_metrics(masked, classified):
    for path in (masked, classified):
        task = task_of(open_subject(path), ())
        found = measure(task)
        expected = evaluate(task.subject.model, task.objective, task.feed, task.subject.model.plan, names=task.corpus.names)
        assert found.text is None
        assert (found.evaluated.loss, found.evaluated.metrics) == (expected.loss, expected.metrics)
        units, unit = unit_losses(task)
        assert unit == "rows"
        assert units.sum(0) == pytest.approx([expected.count, expected.loss * expected.count], rel=1e-5)


def test_classes_keep_the_numbers_they_were_trained_with(classified, tmp_path):
    """Data without the first class would number the others from 0."""
    rows = [{"text": f"aaaa {n}", "label": "red"} for n in range(5)] + [{"text": "bbbb", "label": "green"}]
    subject = open_subject(classified)
    task = task_of(subject, write(tmp_path / "some.jsonl", rows), progress=False)
    assert task.corpus.names == {"label": ("blue", "green", "red")}
    assert [int(task.corpus.validation[number]["label"]) for number in range(6)] == [2] * 5 + [1]
    model, logs = subject.model, 0.0
    for row in rows:
        tokens = [subject.tokenizer.special("cls"), *subject.tokenizer.encode(row["text"]), subject.tokenizer.special("sep")]
        with torch.no_grad():
            logs -= float(model(torch.tensor([tokens]))[0].log_softmax(-1)[["blue", "green", "red"].index(row["label"])])
    assert measure(task).evaluated.loss == pytest.approx(logs / 6, rel=1e-5)
    with pytest.raises(DataError, match="was not trained on the class 'blu'; did you mean 'blue'"):
        task_of(subject, write(tmp_path / "new.jsonl", [{"text": "a", "label": "blu"}]), progress=False)


def test_two_models_on_the_same_rows(first, second, masked, texts):
    """Of data with many documents these are the units; of few, the rows."""
    one, other = open_subject(first), open_subject(second)
    for paths, unit in (((str(texts),), "documents"), ((), "rows")):
        task = task_of(one, paths, progress=False)
        mine = measure(task)
        theirs = measure(task_of(other, paths, progress=False)).evaluated
        found = against(task, mine, other)
        assert found.unit == unit
        assert found.interval.value == pytest.approx(mine.evaluated.loss - theirs.loss, rel=1e-6)
        assert found.interval.low < found.interval.value < found.interval.high
        same = against(task, mine, one)
        assert (same.interval.value, same.verdict) == (0.0, "cannot tell")
    task = task_of(open_subject(masked), ())
    found = against(task, measure(task), open_subject(masked))
    assert (found.interval.value, found.unit) == (0.0, "rows")
    with pytest.raises(UserError, match="compared by the likelihood of whole documents"):
        against(task, measure(task), one)


def test_models_of_different_tokens_are_compared_by_document(first, make_run, texts):
    one, other = open_subject(first), open_subject(make_run(2, vocab=300))
    task = task_of(one, (str(texts),), progress=False)
    mine, theirs = measure(task), measure(task_of(other, (str(texts),), progress=False))
    assert theirs.evaluated.count < mine.evaluated.count
    found = against(task, mine, other)
    assert found.unit == "documents"
    nats = mine.text.whole.nats - theirs.text.whole.nats
    assert found.interval.value == pytest.approx(nats / mine.evaluated.count, rel=1e-6)


def test_what_does_not_fit_together_is_refused(first, make_run, texts, tmp_path):
    subject = open_subject(first)
    with pytest.raises(UserError, match=r"no such file|cannot be read|does not exist"):
        task_of(subject, (str(tmp_path / "nowhere.txt"),), progress=False)
    tokens = TokenizerFile(path=str(open_subject(make_run(2, vocab=300)).run / "checkpoints" / "step-00000001"))
    with pytest.raises(UserError, match="the tokenizer has 282 tokens, and the model's embedding 257 rows"):
        task_of(subject, (str(texts),), {"data.tokenizer": tokens.plain()}, progress=False)
    table = open_subject(make_run(3, architecture("gpt2", tiny=True)))
    task = task_of(subject, (str(texts),), {"length": 128}, progress=False)
    with pytest.raises(UserError, match=r"length 128 is longer .* \(64\): compare at a shorter one, --set length=64"):
        against(task, measure(task), table)
