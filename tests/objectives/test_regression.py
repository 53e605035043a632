"""Numbers of texts: standardised by the training targets, and metrics from sums as numpy computes them from all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from anyformer.data import prepare
from anyformer.objectives import RegressionObjective
from anyformer.objectives.objective import added
from anyformer.objectives.regression import spearman
from anyformer.parts import Head
from objectives.heads import bert, drawn, made, measured

ROWS = [{"text": f"things {n}", "value": 1000.0 + 7.0 * (n * n % 11)} for n in range(14)]
VALUES = np.array([row["value"] for row in ROWS])


def test_targets_are_standardised_by_the_training_split(tmp_path):
    prepared = made(RegressionObjective(), {"kind": "scored"}, ROWS, tmp_path, 24)
    targets = torch.cat([each.targets for each in prepared.held_out]).double().numpy()
    np.testing.assert_allclose(targets, (VALUES - VALUES.mean()) / VALUES.std(), atol=1e-6)


def test_held_out_values_move_no_moment(tmp_path):
    objective = RegressionObjective()
    prepared = made(objective, {"kind": "scored"}, ROWS, tmp_path, 24)
    (tmp_path / "held-out.jsonl").write_text('{"text": "far", "value": 5000}\n')
    corpus = prepare(prepared.data, tmp_path / "cache", 1, progress=False, special=objective.special(24))
    examples = next(objective.feed(prepared.data, corpus, prepared.setting, 4, held_out=True).once())
    assert float(examples.targets[0]) == pytest.approx((5000 - VALUES.mean()) / VALUES.std(), rel=1e-6)


def test_metrics_are_those_of_all_examples_at_once(tmp_path):
    objective = RegressionObjective()
    batches = made(objective, {"kind": "scored"}, ROWS, tmp_path, 24).held_out
    outputs = [drawn(len(each.rows), 1, seed=number) for number, each in enumerate(batches)]
    said = torch.cat(outputs)[:, 0].double().numpy()
    figures = measured(objective, outputs, batches)
    in_units = said * VALUES.std() + VALUES.mean()
    assert figures["pearson"] == pytest.approx(np.corrcoef(said, VALUES)[0, 1], abs=1e-6)
    assert figures["spearman"] == pytest.approx(stats.spearmanr(said, VALUES).statistic)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((in_units - VALUES) ** 2)), rel=1e-6)
    assert figures["loss"] == pytest.approx(np.mean((in_units - VALUES) ** 2) / VALUES.var(), rel=1e-5)


def test_a_constant_has_no_correlation_and_the_baselines_loss(tmp_path):
    objective = RegressionObjective()
    prepared = made(objective, {"kind": "scored"}, ROWS, tmp_path, 24)
    figures = measured(objective, [torch.zeros(len(each.rows), 1) for each in prepared.held_out], prepared.held_out)
    assert figures["pearson"] == 0.0
    feeds = [
        objective.feed(prepared.data, prepared.corpus, prepared.setting, 4, held_out=held_out) for held_out in (False, True)
    ]
    name, loss = objective.baseline(feeds[0], 3, feeds[1], 100, 1)
    assert name == "the mean of the training targets"
    assert loss == pytest.approx(figures["loss"]) == pytest.approx(1.0, abs=1e-6)


def test_one_output_is_asked_for():
    RegressionObjective().check(bert(Head(outputs=1, pool="mean")))
    for head in (Head(outputs=2, pool="mean"), Head(tied=True), None):
        with pytest.raises(ValueError, match="one output"):
            RegressionObjective().check(bert(Head()).but(head=head))


@pytest.mark.parametrize("series", ["ties", "one value", "reversed", "many"])
def test_spearman_is_that_of_scipy(series):
    numbers = np.random.default_rng(0)
    said, real = numbers.integers(0, 5, (2, 40)).astype(float)
    match series:
        case "one value":
            said[:] = 3.0
        case "reversed":
            said, real = np.arange(40.0), -(np.arange(40.0) ** 3)
        case "many":
            said, real = numbers.normal(size=(2, 500))
    found = spearman(torch.from_numpy(said), torch.from_numpy(real))
    assert found == pytest.approx(0.0 if series == "one value" else stats.spearmanr(said, real).statistic, abs=1e-12)


def test_ranks_are_those_within_all_rows_whatever_the_batches():
    said, real = torch.randn(2, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    names = RegressionObjective().traits.each_row
    rows = [
        {"each_said": a, "each_real": b, "rows": torch.tensor(len(a))}
        for a, b in zip(said.split(7), real.split(7), strict=True)
    ]
    totals = added(rows, names)
    assert float(totals["rows"]) == 30
    assert spearman(totals["each_said"], totals["each_real"]) == pytest.approx(stats.spearmanr(said, real).statistic)
