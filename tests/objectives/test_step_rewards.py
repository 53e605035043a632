"""Process rewards: the published loss written out, labels at the ends of steps, and a run that finds planted mistakes."""

from __future__ import annotations

import json
import math

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForTokenClassification

import anyformer as af
from anyformer.data import IGNORED, Bytes, StepLabels, prepare
from anyformer.model.transformer import build
from anyformer.objectives import Setting, StepRewardsObjective, loss_of
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.text import DataError
from anyformer.training import AdamW, Evaluation, Run, train
from anyformer.training.journal import read_metrics
from objectives.test_preferences import LLAMA

SCALAR = LLAMA.but(head=Head(outputs=1, bias=True))
SOLVED = [
    {"prompt": "2+2?", "completions": ["ab", "c"], "labels": [True, False]},
    {"prompt": "3?", "completions": ["d"], "labels": [True]},
]


def examples_of(place, rows, **fields):
    path = place / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = StepLabels(paths=(str(path),), tokenizer=Bytes(), validation=0.0, **fields)
    corpus = prepare(data, place / "cache", 1, progress=False)
    setting = Setting(corpus.tokenizer, 12)
    return StepRewardsObjective().feed(data, corpus, setting, len(rows)).at(0), corpus.tokenizer


def test_a_step_is_judged_at_its_last_token(tmp_path):
    examples, tokenizer = examples_of(tmp_path, SOLVED, separator=";")
    for tokens, targets in zip(examples.tokens.tolist(), examples.targets.tolist(), strict=True):
        judged = {place: target for place, target in enumerate(targets) if target != IGNORED}
        read = {tokenizer.decode(tokens[: place + 1]).split("?")[1]: target for place, target in judged.items()}
        assert read in ({"ab;": 1, "ab;c;": 0}, {"d;": 1})
    assert examples.count == 3


def test_the_loss_is_the_published_one(tmp_path):
    """Its gradient too; padding, which comes last, changes nothing."""
    objective, model = StepRewardsObjective(), build(SCALAR, seed=3).eval()
    examples, _ = examples_of(tmp_path, SOLVED)
    expected = torch.zeros(())
    for row, wanted in zip(model(examples.tokens), examples.targets.tolist(), strict=True):
        for (r,), target in zip(row, wanted, strict=True):
            if target != IGNORED:
                p = 1 / (1 + torch.exp(-r))
                expected = expected - (p if target else 1 - p).log()
    weights = list(model.parameters())
    loss = loss_of(objective, model, examples)
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(one, weights) for one in (loss, expected))
    torch.testing.assert_close(ours, theirs)
    totals = objective.statistics(model, examples, Auxiliary(), {})
    assert (int(totals["steps"]), int(totals["solutions"])) == (3, 2)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"labels": [True]}, "2 steps in 'completions', and 1 labels in 'labels'"),
        ({"labels": [1, 0]}, "should be a list of true and false"),
        ({"completions": []}, "should be a list of texts"),
    ],
)
def test_bad_solutions_are_named_by_line(tmp_path, row, said):
    with pytest.raises(DataError, match=rf"rows.jsonl:1.*{said}"):
        examples_of(tmp_path, [SOLVED[0] | row])


@pytest.mark.parametrize(("head", "said"), [(Head(), "needs one output"), (Head(outputs=1, pool="last"), "leave it out")])
def test_another_head_is_refused(head, said):
    with pytest.raises(ValueError, match=f"the step_rewards objective .*{said}"):
        StepRewardsObjective().check(LLAMA.but(head=head))


def test_a_run_finds_planted_mistakes_and_transformers_loads_it(tmp_path, monkeypatch):
    """A step is right where it holds an x; of every token the class of transformers gives the same number."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    letters, draws = "abcdefgh", torch.Generator().manual_seed(3)
    rows = []
    for _ in range(300):
        steps, labels = [], []
        for right in (torch.rand(3, generator=draws) < 0.6).tolist():
            letter = letters[int(torch.randint(8, (1,), generator=draws))]
            steps.append(letter + ("x" if right else "y") + letter)
            labels.append(right)
        rows.append({"prompt": "?", "completions": steps, "labels": labels})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(
        steps=80, batch=8, length=16, data=StepLabels(paths=(str(path),), tokenizer=Bytes(), validation=0.2),
        objective=StepRewardsObjective(), optimiser=AdamW(learning_rate=5e-3), evaluation=Evaluation(every=100),
        plan=Plan(precision="fp32", compile="off"), architecture=SCALAR,
    )  # fmt: skip
    trained = train(run, tmp_path / "run", console=Console(quiet=True))
    last = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"][-1]
    assert last["metrics"]["accuracy"] > 0.95
    assert last["loss"] < 0.3 < trained.baseline[1] < math.log(2)
    af.export(trained.model.eval(), tmp_path / "out")
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    tokens = torch.randint(97, 122, (2, 9), generator=draws)
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, trained.model(tokens), rtol=1e-4, atol=1e-5)
