"""Reward models: the published losses written out, a planted preference, and the class of transformers that loads them."""

from __future__ import annotations

import json
import math

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForSequenceClassification

import anyformer as af
from anyformer.data import Bytes, Preferences, RecordBatch, RecordTable
from anyformer.data.columns import FLAGS, NUMBER, TOKENS
from anyformer.model.transformer import build
from anyformer.objectives import DPOObjective, PairLoss, RewardObjective, Setting, SimPOObjective, loss_of
from anyformer.objectives.objective import without_penalties
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.training import AdamW, Evaluation, Run, train
from anyformer.training.journal import read_metrics
from objectives.test_formulas import LOSSES_OF_PAIRS
from objectives.test_preferences import LLAMA, batch_of, table

SCALAR = LLAMA.but(head=Head(outputs=1, pool="last"))
PAD = 258


def rated(margins: list[float], agreements: list[float]) -> RecordBatch:
    plain = table(len(margins))
    types = dict.fromkeys(("chosen", "rejected"), TOKENS) | dict.fromkeys(("chosen_answers", "rejected_answers"), FLAGS)
    rows = [
        {**plain[n], "margin": margin, "agreement": agreement}
        for n, (margin, agreement) in enumerate(zip(margins, agreements, strict=True))
    ]
    return batch_of(RecordTable.of({**types, "margin": NUMBER, "agreement": NUMBER}, rows))


@pytest.mark.parametrize("kind", PairLoss.kinds)
@pytest.mark.parametrize("pool", ["last", None])
def test_the_loss_is_the_published_one(kind, pool):
    """Of margins and shares of judges, with the rewards read at the last token of every chat alone."""
    margins, agreements = [0.0, 0.5, 1.0, 0.25], [1.0, 0.9, 0.5, 0.75]
    more = {"flipped": 0.2} if "flipped" in PairLoss.kinds[kind].model_fields else {}
    objective = RewardObjective(loss=PairLoss.parse({"kind": kind, **more}), centre=0.3)
    model = build(LLAMA.but(head=Head(outputs=1, pool=pool)), seed=3).eval()
    for weight in model.parameters():
        weight.data.mul_(3)  # rewards that differ
    batch = rated(margins, agreements)
    examples = objective.examples(batch, Setting(None, 14))
    total = plain = 0.0
    for (record,), margin, agreement in zip(batch.records, margins, agreements, strict=True):
        with torch.no_grad():
            r, other = (float(model(torch.tensor([record[name].tolist()])).flatten()[-1]) for name in ("chosen", "rejected"))
        d = torch.tensor(r - other - margin, dtype=torch.float64)
        pair = float(agreement * LOSSES_OF_PAIRS[kind](d, 1.0) + (1 - agreement) * LOSSES_OF_PAIRS[kind](-d, 1.0))
        total, plain = total + pair + 0.3 * (r + other) ** 2, plain + pair
    assert abs(total - plain) > 0.01
    assert float(loss_of(objective, model, examples).detach()) == pytest.approx(total, rel=1e-5)
    assert float(loss_of(without_penalties(objective), model, examples).detach()) == pytest.approx(plain, rel=1e-5)
    assert float(objective.statistics(model, examples, Auxiliary(), {})["loss"].detach()) == pytest.approx(plain, rel=1e-5)


def test_pairs_of_which_nothing_more_is_known_have_bradley_and_terrys_loss():
    objective = RewardObjective()
    examples = objective.examples(batch_of(table()), Setting(None, 14))
    assert examples.facts.tolist() == [[0, 1]] * 4
    rewards = torch.tensor([[1.0, -0.5]])
    assert float(objective.losses(rewards, examples.facts[:1])) == pytest.approx(math.log(1 + math.exp(-1.5)))
    assert objective.lengths(table(), Setting(None, 14)).max() == examples.padding.logical_not().sum(1).max()


@pytest.mark.parametrize("objective", [DPOObjective(), SimPOObjective()], ids=lambda each: each.kind)
def test_an_objective_that_takes_pairs_alike_refuses_degrees(objective):
    data = Preferences(paths=("x",), margin="by")
    with pytest.raises(ValueError, match=r"takes all pairs alike, and data\.margin says how they differ"):
        objective.check_data(data, LLAMA, 8)


@pytest.mark.parametrize("head", [None, Head(outputs=2, pool="last")])
def test_another_head_is_refused(head):
    with pytest.raises(ValueError, match="the reward objective needs one output"):
        RewardObjective().check(LLAMA.but(head=head or Head()))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that learns a planted preference: the answer with more of the letter z."""
    place = tmp_path_factory.mktemp("planted")
    generator = torch.Generator().manual_seed(3)
    rows = []
    for _ in range(500):
        words = torch.randint(97, 122, (2, 8), generator=generator)
        few, many = torch.randperm(6, generator=generator)[:2].sort().values.tolist()
        words[0, :many], words[1, :few] = ord("z"), ord("z")
        chosen, rejected = ("".join(map(chr, word[torch.randperm(8, generator=generator)].tolist())) for word in words)
        rows.append({"prompt": "z?", "chosen": chosen, "rejected": rejected, "by": (many - few) / 5})
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(
        steps=150, batch=8, length=12, objective=RewardObjective(centre=0.01), evaluation=Evaluation(every=200),
        data=Preferences(paths=(str(place / "rows.jsonl"),), margin="by", tokenizer=Bytes(), validation=0.2),
        plan=Plan(precision="fp32", compile="off"), architecture=SCALAR, optimiser=AdamW(learning_rate=3e-3),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYFORMER_CACHE", str(place / "cache"))
        train(run, place / "run", console=Console(quiet=True))
    return place / "run"


def test_a_planted_preference_is_learnt(trained):
    last = [row for row in read_metrics(trained) if row["kind"] == "validation"][-1]
    assert last["metrics"]["accuracy"] >= 0.95
    assert abs(last["metrics"]["mean_reward"]) < 1, "centred"
    assert last["loss"] < 0.4


def test_transformers_loads_a_reward_model_and_it_comes_back(trained, tmp_path):
    model, tokenizer = af.load(trained)
    af.export(model, tmp_path / "out", tokenizer=tokenizer)
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    assert theirs.config.num_labels == 1
    again, _ = af.load(tmp_path / "out")
    assert again.architecture.head.outputs == 1
    tokens = torch.randint(97, 122, (1, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = model.eval()(tokens)
        torch.testing.assert_close(theirs(tokens).logits, ours, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(again.eval()(tokens), ours)
