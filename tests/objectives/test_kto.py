"""KTO: the published loss written out, mismatched answers, and a run on answers that were judged one by one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from anyformer.data import IGNORED, Bytes, Judgements, RecordBatch, RecordTable
from anyformer.data.columns import FLAGS, LABEL, TOKENS
from anyformer.model.transformer import build
from anyformer.objectives import KTOObjective, Setting, loss_of
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.testing.objectives import signal_equals_its_twin
from anyformer.training import AdamW, Evaluation, Run, train
from anyformer.training.journal import read_metrics
from objectives.test_formulas import answers
from objectives.test_preferences import LLAMA

ROWS = [([1, 2, 3, 4], 2, 1), ([1, 9, 8, 8, 8], 1, 0), ([7, 7, 7, 5, 6, 2], 3, 0), ([4, 3], 1, 1)]
"""Tokens, where the answer begins, and whether it is desirable."""


def judged() -> RecordBatch:
    rows = [
        {"tokens": tokens, "answers": [int(place >= begin) for place in range(len(tokens))], "desirable": desirable}
        for tokens, begin, desirable in ROWS
    ]
    table = RecordTable.of({"tokens": TOKENS, "answers": FLAGS, "desirable": LABEL}, rows)
    return RecordBatch(tuple((table[n],) for n in range(len(table))), np.arange(len(table)))


def test_a_row_is_beside_its_prompt_with_the_answer_before():
    examples = KTOObjective().examples(judged(), Setting(None, 5))
    none = IGNORED
    assert examples.tokens[:4].tolist() == [[1, 2, 3, 0, 0], [1, 2, 0, 0, 0], [1, 9, 8, 8, 0], [1, 3, 0, 0, 0]]
    assert examples.targets[:2].tolist() == [[none, 3, 4, none, none], [none, 3, none, none, none]]
    assert examples.targets[2:4].tolist() == [[9, 8, 8, 8, none], [3, 4, none, none, none]]
    assert examples.tokens[5].tolist() == [7, 7, 7, 9, 8], "cut at T"
    assert examples.targets[5].tolist() == [none, none, 9, 8, 8]
    assert examples.facts.flatten().tolist() == [1, 0, 0, 1]
    assert examples.count == 4
    assert KTOObjective().counted(examples)[:2].tolist() == [[True] * 3 + [False] * 2, [False] * 5]


def test_the_loss_is_the_published_one():
    objective, model, before = (
        KTOObjective(beta=0.3, desirable=1.5, undesirable=0.5),
        build(LLAMA, seed=3),
        build(LLAMA, seed=4),
    )
    examples = objective.examples(judged(), Setting(None, 6))
    with torch.no_grad():
        old = [total for total, _ in answers(before.eval()(examples.tokens).double(), examples.targets)]

    def twin(objective: KTOObjective, logits: Tensor, targets: Tensor) -> Tensor:
        ratios = [total - then for (total, _), then in zip(answers(logits, targets), old, strict=True)]
        z = max(0.0, sum(float(each.detach()) for each in ratios[1::2]) / len(ROWS))
        total = logits.new_zeros(())
        for d, (_, _, desirable) in zip(ratios[::2], ROWS, strict=True):
            value = 1 / (1 + torch.exp(-0.3 * (d - z))) if desirable else 1 / (1 + torch.exp(-0.3 * (z - d)))
            total = total + (1.5 if desirable else 0.5) * (1 - value)
        return total

    signal_equals_its_twin(objective, model, examples, twin, {"reference": before})


def test_z_is_never_below_zero():
    """Of two models each is once the reference of the other, so that the mean ratio has both signs."""
    objective, models = KTOObjective(beta=0.3, desirable=3.0), [build(LLAMA, seed=seed).eval() for seed in (3, 4)]
    examples = objective.examples(judged(), Setting(None, 6))
    signs = set()
    for model, before in (models, models[::-1]):
        with torch.no_grad():
            found = [answers(one(examples.tokens).double(), examples.targets) for one in (model, before)]
            loss = loss_of(objective, model, examples, None, partners={"reference": before})
        ratios = [float(now - then) for (now, _), (then, _) in zip(*found, strict=True)]
        mean, expected = sum(ratios[1::2]) / len(ROWS), 0.0
        signs.add(mean > 0)
        for d, (_, _, desirable) in zip(ratios[::2], ROWS, strict=True):
            gain = (d - max(0.0, mean)) * (1 if desirable else -1)
            expected += (3 if desirable else 1) / (1 + math.exp(0.3 * gain))
        assert float(loss) == pytest.approx(expected, rel=1e-6)
    assert signs == {True, False}


def test_the_model_as_it_began_has_the_loss_of_the_baseline():
    objective, model = KTOObjective(desirable=2.0), build(LLAMA, seed=3).eval()
    examples = objective.examples(judged(), Setting(None, 6))
    partners = {"reference": model}
    loss = loss_of(objective, model, examples, None, partners=partners) / examples.count
    _, baseline = objective.baseline(None, 1, Once(examples), 4, 261)
    assert float(loss) == pytest.approx(baseline) == pytest.approx((2 * 2.0 + 2 * 1.0) / 4 / 2)
    metrics = objective.metrics(objective.statistics(model, examples, Auxiliary(), partners), {})
    assert (metrics["margin"], metrics["kl"]) == (0, 0)


class Once:
    """A feed of one batch."""

    def __init__(self, examples) -> None:
        self.examples = examples

    def once(self, windows: int):
        yield self.examples


@pytest.mark.parametrize(
    ("changes", "said"), [({"accumulation": 2}, "accumulation = 2 cuts"), ({"batch": 1}, "set batch to 2")]
)
def test_a_micro_batch_without_other_answers_is_refused(changes, said):
    sizes = {"batch": 4, "accumulation": 1} | changes
    with pytest.raises(ValueError, match=f"the kto objective finds answers to other prompts.*{said}"):
        KTOObjective().sizes.check(8, **sizes)


def test_a_run_learns_what_is_desirable(tmp_path, monkeypatch):
    """The desirable answer goes on with the letter asked for."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    letters, path = "abcdefghijklmnopqrstuvwxyz", tmp_path / "judged.jsonl"
    rows = [
        {"prompt": one * 2 + letters[turn], "completion": letters[(n + 3 * (turn % 2)) % 26], "label": turn % 2 == 0}
        for turn in range(16) for n, one in enumerate(letters)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(
        steps=60, batch=16, length=8, data=Judgements(paths=(str(path),), tokenizer=Bytes(), validation=0.2),
        objective=KTOObjective(beta=0.5), optimiser=AdamW(learning_rate=1e-2), evaluation=Evaluation(every=100),
        plan=Plan(precision="fp32", compile="off"), architecture=LLAMA,
    )  # fmt: skip
    train(run, tmp_path / "run", console=Console(quiet=True))
    last = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"][-1]
    assert last["metrics"]["accuracy"] > 0.7
    assert last["metrics"]["margin"] > 1
    assert last["loss"] < 0.3
