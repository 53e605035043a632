"""Preferences: the losses against TRL's own numbers and against the published formulas, written out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.data import IGNORED, Bytes, Preferences, RecordBatch, RecordTable
from anyformer.data.columns import FLAGS, TOKENS
from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.objectives import DPOObjective, Examples, ORPOObjective, PreferenceObjective, Setting, SimPOObjective, loss_of
from anyformer.objectives.pair_losses import SmoothedLoss
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.training import AdamW, Evaluation, Run, train
from anyformer.training.journal import read_metrics
from anyformer.tuning import Lora, Tuning

LLAMA = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=261, tied=True)
PAIRS, LENGTH, VOCAB = 3, 7, 11
BEGIN, END = [2, 3, 1, 2, 3, 1], [7, 5, 6, 4, 7, 3]
"""The places of the answers; TRL's batch has all chosen rows first."""
TRL = {"dpo 0.1": 0.5928657001112668, "dpo 0.5": 0.3023850996167414, "smoothed": 0.635339869142423,
       "simpo": 1.888908582343772, "orpo": 0.09175146371126175, "nll": 4.193601744299468,
       "chosen": 0.15877370586223763, "rejected": -0.05359713929354306, "margin": 0.21237084515578072}  # fmt: skip
"""What TRL 1.16.0 computes of these logits: `DPOTrainer._compute_loss`, `CPOTrainer.cpo_loss` (SimPO; of log-ratios with its
label smoothing of 0.2, which DPO's has no more) and `ORPOTrainer.odds_ratio_loss`."""


class Given(torch.nn.Module):
    """A model whose logits are given."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, tokens: torch.Tensor, **_: object) -> torch.Tensor:
        return self.logits


def given() -> tuple[Given, Given, Examples]:
    """The policy, the reference and the examples, in our order: a sample's two rows together."""
    each = torch.arange(2 * PAIRS * LENGTH * VOCAB, dtype=torch.float64).view(2 * PAIRS, LENGTH, VOCAB)
    logits = 3 * torch.sin(1.7 * each)
    reference = logits + 0.8 * torch.cos(2.3 * each)
    tokens = (torch.arange(2 * PAIRS * LENGTH) ** 2 % VOCAB).view(2 * PAIRS, LENGTH)
    places = torch.arange(LENGTH)
    answers = (places >= torch.tensor(BEGIN)[:, None]) & (places < torch.tensor(END)[:, None])
    order = torch.arange(2 * PAIRS).view(2, PAIRS).T.flatten()
    targets = torch.where(answers, tokens, IGNORED)[order, 1:]
    examples = Examples(tokens[order, :-1], targets, None, torch.arange(PAIRS), counts=torch.ones(PAIRS, dtype=torch.float64))
    return Given(logits[order, :-1]), Given(reference[order, :-1]), examples


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (DPOObjective(beta=0.1), TRL["dpo 0.1"]),
        (DPOObjective(beta=0.5), TRL["dpo 0.5"]),
        (DPOObjective(beta=0.1, loss=SmoothedLoss(flipped=0.2)), TRL["smoothed"]),
        (SimPOObjective(beta=2.0, gamma=1.0), TRL["simpo"]),
        (ORPOObjective(weight=0.1), TRL["nll"] + TRL["orpo"]),
    ],
)
def test_losses_are_those_of_trl(objective, expected):
    policy, reference, examples = given()
    loss = loss_of(objective, policy, examples, None, partners={"reference": reference}) / examples.count
    assert float(loss) == pytest.approx(expected, rel=2e-6)


def test_rewards_are_those_of_trl():
    policy, reference, examples = given()
    objective = DPOObjective(beta=0.1)
    partners = {"reference": reference}
    rewards = objective.rewards(objective.likelihoods(policy, examples, None, None), objective.reference(examples, partners))
    assert rewards.mean(0).tolist() == pytest.approx([TRL["chosen"], TRL["rejected"]], rel=1e-5)
    totals = objective.statistics(policy, examples, Auxiliary(), partners)
    metrics = objective.metrics(totals, {})
    assert metrics["accuracy"] == 1.0
    assert metrics["margin"] == pytest.approx(TRL["margin"], rel=1e-5)


def test_losses_are_the_published_formulas_in_loops():
    policy, reference, examples = given()

    def log_p(model: Given, row: int) -> list[float]:
        return [
            float(model.logits[row, place].log_softmax(-1)[target])
            for place, target in enumerate(examples.targets[row].tolist())
            if target != IGNORED
        ]

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    dpo = simpo = orpo = 0.0
    for pair in range(PAIRS):
        ours = [log_p(policy, 2 * pair + n) for n in (0, 1)]
        theirs = [log_p(reference, 2 * pair + n) for n in (0, 1)]
        ratio = [sum(ours[n]) - sum(theirs[n]) for n in (0, 1)]
        dpo -= 0.7 * math.log(sigmoid(0.3 * (ratio[0] - ratio[1]))) + 0.3 * math.log(sigmoid(0.3 * (ratio[1] - ratio[0])))
        mean = [sum(each) / len(each) for each in ours]
        simpo -= math.log(sigmoid(1.5 * (mean[0] - mean[1]) - 0.4))
        odds = [math.exp(each) / (1 - math.exp(each)) for each in mean]
        orpo -= mean[0] + 0.6 * math.log(sigmoid(math.log(odds[0] / odds[1])))
    for objective, expected in (
        (DPOObjective(beta=0.3, loss=SmoothedLoss(flipped=0.3)), dpo),
        (SimPOObjective(beta=1.5, gamma=0.4), simpo),
        (ORPOObjective(weight=0.6), orpo),
    ):
        loss = loss_of(objective, policy, examples, None, partners={"reference": reference})
        assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_a_certain_answer_has_a_finite_loss_and_gradient():
    logits = torch.zeros(2, 3, VOCAB)
    logits[:, :, 4] = 1e4
    logits.requires_grad_()
    examples = Examples(
        torch.zeros(2, 3, dtype=torch.int64), torch.full((2, 3), 4), None, torch.arange(1), counts=torch.ones(1)
    )
    for objective in (ORPOObjective(), SimPOObjective()):
        loss = loss_of(objective, Given(logits), examples, None)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_an_answer_without_tokens_is_no_reason_for_a_loss_that_is_no_number():
    policy, _, examples = given()
    targets = examples.targets.clone()
    targets[1] = IGNORED
    for objective in (ORPOObjective(), SimPOObjective()):
        assert loss_of(objective, policy, replace(examples, targets=targets), None).isfinite()


def table(count: int = 4) -> RecordTable:
    generator = np.random.default_rng(0)
    rows = []
    for _ in range(count):
        prompt = generator.integers(0, 256, int(generator.integers(1, 5))).tolist()
        row = {}
        for name in ("chosen", "rejected"):
            answer = generator.integers(0, 256, int(generator.integers(1, 6))).tolist()
            row |= {name: prompt + answer, f"{name}_answers": [0] * len(prompt) + [1] * len(answer)}
        rows.append(row)
    return RecordTable.of({"chosen": TOKENS, "rejected": TOKENS, "chosen_answers": FLAGS, "rejected_answers": FLAGS}, rows)


def batch_of(table: RecordTable) -> RecordBatch:
    return RecordBatch(tuple((table[n],) for n in range(len(table))), np.arange(len(table)))


def test_examples_by_hand():
    row = {"chosen": [1, 2, 3, 4], "chosen_answers": [0, 0, 1, 1], "rejected": [1, 2, 9], "rejected_answers": [0, 0, 1]}
    only = RecordTable.of({"chosen": TOKENS, "rejected": TOKENS, "chosen_answers": FLAGS, "rejected_answers": FLAGS}, [row])
    setting = Setting(None, 5)
    examples = DPOObjective().examples(batch_of(only), setting)
    none = IGNORED
    assert examples.tokens.tolist() == [[1, 2, 3, 0, 0], [1, 2, 0, 0, 0]]
    assert examples.targets.tolist() == [[none, 3, 4, none, none], [none, 9, none, none, none]]
    assert examples.padding.tolist() == [[False] * 3 + [True] * 2, [False] * 2 + [True] * 3]
    assert examples.count == 1
    assert DPOObjective().lengths(only, setting).tolist() == [3]
    many = DPOObjective().examples(batch_of(table()), Setting(None, 12))
    assert many.slice(1, 3).tokens.equal(many.tokens[2:6])
    assert many.slice(1, 3).rows.tolist() == [1, 2]


@pytest.mark.parametrize("objective", [DPOObjective(), SimPOObjective(), ORPOObjective()], ids=lambda each: each.kind)
def test_the_loss_falls_and_does_not_depend_on_the_cut(objective: PreferenceObjective):
    """With dropout, whose draws each row has of its own."""
    tiny = change_all(LLAMA, {"decoder.dropout": 0.1})
    model, reference = build(tiny, seed=3).train(), build(tiny, seed=3).eval()
    examples, partners = objective.examples(batch_of(table()), Setting(None, 12)), {"reference": reference}
    noise = Noise.at(0, 0, examples.rows)
    whole = float(loss_of(objective, model, examples, noise, partners=partners))
    halves = [examples.slice(0, 1), examples.slice(1, 4)]
    cut = sum(float(loss_of(objective, model, part, Noise(noise.key, part.rows), partners=partners)) for part in halves)
    assert cut == pytest.approx(whole, rel=1e-5)
    if objective.kind == "dpo":
        before = loss_of(objective, reference, examples, None, partners=partners) / examples.count
        assert float(before) == pytest.approx(math.log(2), rel=1e-6)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(20):
        loss = loss_of(objective, model, examples, noise, partners=partners) / examples.count
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss) < 0.7 * whole / examples.count


def test_two_answers_have_dropout_of_their_own():
    """Equal answers are equally likely, but for what each of them drops."""
    model = build(change_all(LLAMA, {"decoder.dropout": 0.1}), seed=3)
    ids, flags = [1, 2, 3, 4, 5], [0, 0, 1, 1, 1]
    row = {"chosen": ids, "rejected": ids, "chosen_answers": flags, "rejected_answers": flags}
    same = RecordTable.of({"chosen": TOKENS, "rejected": TOKENS, "chosen_answers": FLAGS, "rejected_answers": FLAGS}, [row])
    examples = DPOObjective().examples(batch_of(same), Setting(None, 8))
    for training in (False, True):
        noise = Noise.at(0, 0, examples.rows) if training else None
        ((chosen, rejected),) = DPOObjective().likelihoods(model.train(training), examples, noise, None).total.tolist()
        assert (chosen == pytest.approx(rejected, rel=1e-6)) == (not training)


@pytest.mark.parametrize(
    ("name", "said"), [("bert-base-uncased", "lets every token see"), ("t5-small", "one sequence of text")]
)
def test_architectures_that_cannot_are_refused(name, said):
    with pytest.raises(ValueError, match=f"the dpo objective.*{said}"):
        DPOObjective().check(architecture(name, tiny=True))


@pytest.mark.parametrize(
    ("objective", "tuning", "least"),
    [
        (DPOObjective(beta=0.3), Tuning(), 0.9),
        (DPOObjective(beta=0.3), Tuning(adapter=Lora(rank=8)), 0.6),
        (SimPOObjective(), Tuning(), 0.9),
    ],
    ids=["dpo", "dpo_lora", "simpo"],
)
def test_a_run_learns_what_is_preferred(objective, tuning, least, tmp_path, monkeypatch):
    """The chosen answer goes on with the letter asked for; the baseline is a model that prefers neither."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    letters = "abcdefghijklmnopqrstuvwxyz"
    path = tmp_path / "preferences.jsonl"
    rows = [
        {"prompt": letters[n % 26] * 2 + letters[n // 26 % 26], "chosen": letters[n % 26], "rejected": letters[(n + 3) % 26]}
        for n in range(300)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(
        steps=60, batch=8, length=10, data=Preferences(paths=(str(path),), tokenizer=Bytes(), validation=0.2),
        objective=objective, optimiser=AdamW(learning_rate=1e-2), evaluation=Evaluation(every=100),
        plan=Plan(precision="fp32", compile="off"), architecture=LLAMA, tuning=tuning,
    )  # fmt: skip
    train(run, tmp_path / "run", console=Console(quiet=True))
    last = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"][-1]
    assert last["metrics"]["accuracy"] > least
    newest = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "train"][-1]
    assert newest["tokens"] == last["tokens"] == 60 * 8 * 2 * 10, "of both answers"
    assert newest["usage"]["tokens_per_second_per_device"] * newest["seconds"] == pytest.approx(newest["tokens"] / 60, rel=0.1)
    assert last["loss"] < objective.baseline(None, 1, None, 1, 261)[1]
