"""Equal arms that were really trained: how often are they told apart?"""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from anyformer.studies.statistics import compare
from anyformer.training import train

PAIRS, SEEDS, ALPHA = 20, 3, 0.05


@pytest.mark.slow
def test_equal_arms_that_were_trained_are_told_apart_no_more_often_than_stated(base, tmp_path):
    """20 studies of 3 seeds; both arms are the same run, with other seeds, since with the same ones their numbers are equal."""

    def loss(seed):
        place = tmp_path / str(seed)
        train(base.but(seed=seed), place, console=Console(quiet=True))
        return next(row["loss"] for line in (place / "metrics.jsonl").open() if (row := json.loads(line)).get("last"))

    losses = [loss(seed) for seed in range(2 * PAIRS * SEEDS)]
    assert len(set(losses)) == len(losses)
    told = 0
    for pair in range(PAIRS):
        mine = losses[2 * SEEDS * pair : 2 * SEEDS * (pair + 1)]
        one, other = (dict(enumerate(each)) for each in (mine[:SEEDS], mine[SEEDS:]))
        told += compare(one, {"other": other}, alpha=ALPHA)["other"].verdict != "cannot tell"
    assert told <= 3, "of 20 studies at a rate of 5 % more than 3 are told apart with a probability of 1.6 %"
