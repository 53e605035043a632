"""The objectives of tasks: what is asked is what is trained, the figures are those counted by hand, packed is as alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.data import IGNORED, prepare
from anyformer.describe import DescriptionError, change_all
from anyformer.model.transformer import build
from anyformer.objectives import Setting, added, loss_of
from anyformer.objectives.mixing import held_out_feed, training_feed
from anyformer.parts.call.reports import Auxiliary
from anyformer.training import Run
from anyformer.training.evaluate import evaluate

MQAR = {"kind": "mqar", "pairs": 3, "keys": 6, "values": 5}


def run_of(task: Any, objective: dict[str, Any] | None = None, name: str = "llama-2-7b", **data: Any) -> Run:
    return Run.parse(
        {
            "steps": 1, "batch": 6, "length": 24, "seed": 3, "architecture": architecture(name, tiny=True).plain(),
            "objective": {"kind": "task", **(objective or {})}, "data": {"kind": "task", "task": task, "test": 20, **data},
            "plan": {"precision": "fp32", "compile": "off"},
        }
    )  # fmt: skip


def feeds(run: Run):
    corpus = prepare(run.data)
    setting = Setting(corpus.tokenizer, run.length, run.seed)
    return tuple(make(run.objective, run.data, corpus, setting, run.batch) for make in (training_feed, held_out_feed))


def test_tokens_and_targets_are_the_symbols_of_the_task():
    run = run_of(MQAR)
    training, held_out = feeds(run)
    for feed, test in ((training, False), (held_out, True)):
        examples = feed.at(2)
        made = run.data.drawn(np.arange(12, 18), 3, 24, test=test)
        asked = made.targets != IGNORED
        assert (examples.tokens.numpy() == made.tokens + 1).all()
        assert (examples.targets.numpy() == np.where(asked, made.targets + 1, IGNORED)).all()
        assert examples.count == asked.sum() == 18


def test_all_held_out_sequences_are_read_once():
    _, held_out = feeds(run_of(MQAR))
    assert torch.cat([examples.rows for examples in held_out.once()]).tolist() == list(range(20))
    assert sum(len(examples.rows) for examples in held_out.once(7)) == held_out.rows_of(7) == 7


@pytest.mark.parametrize("task", [MQAR, "parity", {"kind": "fuzzy_recall", "pairs": 2, "letters": 3, "span": 2}])
def test_the_figures_are_those_counted_by_hand(task):
    """Logits that say the right symbol at some targets and the next one at others."""
    run = run_of(task)
    _, held_out = feeds(run)
    objective, totals, right, whole, asked, chances, whole_chances = run.objective, [], 0, [], 0, 0.0, []
    random = np.random.default_rng(0)
    for number, examples in enumerate(held_out.once()):
        rows = examples.rows.numpy()
        made = run.data.drawn(rows, 3, run.data.lengths(24)[1], test=True)
        said = examples.targets.clamp(min=0) + torch.from_numpy(random.random(examples.targets.shape) < 0.05)
        logits = torch.nn.functional.one_hot(said, 40).float()
        totals.append(objective.token_statistics(logits, examples))
        for row in range(len(rows)):
            answers: dict[int, list[tuple[bool, float]]] = {}
            for place in np.flatnonzero(made.targets[row] != IGNORED):
                hit = bool(said[row, place] == examples.targets[row, place])
                answers.setdefault(int(made.answers[row, place]), []).append((hit, float(made.chances[row, place])))
                right, asked, chances = right + hit, asked + 1, chances + float(made.chances[row, place])
            whole += [all(hit for hit, _ in each) for each in answers.values()]
            whole_chances += [math.prod(chance for _, chance in each) for each in answers.values()]
        assert number < 4
    found = objective.metrics(added(totals), {})
    assert found["accuracy"] == pytest.approx(right / asked)
    assert found["chance"] == pytest.approx(chances / asked)
    assert found["whole_answers"] == pytest.approx(np.mean(whole))
    assert found["chance_of_whole_answers"] == pytest.approx(np.mean(whole_chances))
    assert 0 < found["whole_answers"] < found["accuracy"] or task == MQAR


def test_packed_sequences_give_the_losses_of_each_alone():
    packed, alone = run_of("parity", {"pack": True}, shortest=5, longest=11), run_of("parity", shortest=5, longest=11)
    model = build(packed.architecture, packed.plan, seed=1).eval()
    first, _ = feeds(packed)
    second, _ = feeds(alone)
    numbers = np.array([4, 2])
    together = first.drawn(numbers, numbers)
    each = second.drawn(np.array([8, 9, 4, 5]), np.array([8, 9, 4, 5]))
    assert together.tokens.shape == (2, 24)
    assert together.count == each.count
    with torch.no_grad():
        losses = [float(loss_of(run.objective, model, examples, None)) for run, examples in ((packed, together), (alone, each))]
        mixed = model(together.tokens) - model(together.tokens, documents=together.documents)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert float(mixed.abs().max()) > 1e-3, "sequences that saw each other would give others"


def test_padding_changes_no_loss():
    run = run_of("parity", shortest=6, longest=12)
    model = build(run.architecture, run.plan, seed=1).eval()
    examples = feeds(run)[0].at(0)
    assert examples.padding is not None
    assert examples.padding[:, 12:].all()
    assert not examples.padding[:, :6].any()
    other = examples.tokens.masked_fill(examples.padding, 2)
    with torch.no_grad():
        losses = [float(loss_of(run.objective, model, each, None)) for each in (examples, replace(examples, tokens=other))]
    assert losses[0] == losses[1]


def test_a_source_and_its_target_ask_what_one_sequence_asks():
    task = {"kind": "sorting", "numbers": 6}
    two = run_of(task, {"kind": "task_seq2seq"}, "t5-small", shortest=9)
    one = run_of(task, shortest=9)
    pair, line = feeds(two)[0].at(1), feeds(one)[0].at(1)
    assert pair.decoder_tokens is not None
    assert pair.facts is not None
    assert line.facts is not None
    for row in range(6):
        count = int((pair.targets[row] != IGNORED).sum())
        source = pair.tokens[row, :count].tolist()
        assert line.tokens[row, :count].tolist() == source
        wanted = line.targets[row][line.targets[row] != IGNORED]
        assert pair.targets[row, :count].tolist() == wanted.tolist() == sorted(source)
        assert pair.decoder_tokens[row, : count + 1].tolist()[1:count] == wanted.tolist()[:-1]
        assert torch.equal(pair.facts[row, :count], line.facts[row][line.targets[row] != IGNORED])
        assert (pair.padding[row, count:]).all()
        assert (pair.decoder_padding[row, count:]).all()
    model = build(two.architecture, two.plan, seed=0)
    result = evaluate(model, two.objective, feeds(two)[1], two.plan)
    assert result.metrics["chance"] == pytest.approx(float(line.facts[..., 1].sum() / line.count), abs=0.1)


def test_a_model_without_training_is_near_chance():
    run = run_of({"kind": "copying", "letters": 4}, test=400)
    found = evaluate(build(run.architecture, run.plan, seed=0), run.objective, feeds(run)[1], run.plan)
    assert found.metrics["chance"] == 0.25
    assert found.metrics["accuracy"] < 0.35
    assert found.unit == "sequences"


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "llama-2-7b",
            {"embedding.vocab": 9},
            "11 symbols and 2 special tokens, and the embedding 9 rows: set architecture.embed",
        ),
        ("t5-small", {}, "the task objective gives the model one sequence of text"),
        ("bert-base-uncased", {}, "which this architecture lets every token see"),
    ],
)
def test_an_architecture_that_cannot_is_refused_with_the_remedy(name, changes, message):
    task = {"kind": "mqar", "pairs": 3, "keys": 5, "values": 5}
    model = change_all(architecture(name, tiny=True), changes)
    with pytest.raises(DescriptionError, match=message):
        run_of(task).but(architecture=model)


def test_a_task_without_one_answer_is_refused_as_a_source_and_a_target():
    with pytest.raises(
        DescriptionError, match="which parity has not: choose one of addition, copying, indirect_object, modular_addition"
    ):
        run_of("parity", {"kind": "task_seq2seq"}, "t5-small")


def test_statistics_do_not_depend_on_how_rows_are_cut():
    run = run_of(MQAR)
    model = build(run.architecture, run.plan, seed=0).eval()
    examples = feeds(run)[1].at(0)
    with torch.no_grad():
        whole = run.objective.statistics(model, examples, Auxiliary(), {})
        parts = [run.objective.statistics(model, examples.slice(i, i + 2), Auxiliary(), {}) for i in (0, 2, 4)]
    for name, value in added(parts).items():
        assert float(value) == pytest.approx(float(whole[name]), rel=1e-5)
