"""Logits are divided among processes for losses that can be computed so, and whole for all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest

from anyformer.objectives import (
    CausalObjective,
    ClassificationObjective,
    DistillationObjective,
    MultiTokenObjective,
    Objective,
    TaskObjective,
    TokenLabelsObjective,
    divides_logits,
    of_divided_logits,
)
from anyformer.training.journal import read_metrics

SCRIPT = Path(__file__).with_name("plain_objective.py")


def test_an_override_has_divided_logits_only_where_it_says_so():
    with mock.patch.dict(Objective.kinds._classes):  # kinds that no other test should find
        from parallel.plain_objective import FocalObjective

        class Marked(FocalObjective):
            """One that says of its own method that it can."""

            kind: Literal["marked_objective"] = "marked_objective"
            token_loss = of_divided_logits(CausalObjective.token_loss)

        class Inherited(Marked):
            """One that overrides another of the methods."""

            kind: Literal["inherited_objective"] = "inherited_objective"

            def statistics(self, *given, **named):
                return super().statistics(*given, **named)

        divided = {CausalObjective: True, MultiTokenObjective: True, TaskObjective: True, FocalObjective: False, Marked: True,
                   Inherited: False, ClassificationObjective: False, TokenLabelsObjective: False}  # fmt: skip
        assert {each: divides_logits(each()) for each in divided} == divided
    assert not divides_logits(DistillationObjective(teacher="gpt2")), "its divergence is of all logits"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tensor", "context", "shard", "pipeline"])
def test_a_loss_in_plain_torch_is_that_of_one_process(way, run_of, start, tmp_path):
    losses = {}
    for processes in (1, 2):
        mesh = {"plan.mesh": {"data": 1, way: 2}} if processes == 2 else {}
        directory = tmp_path / str(processes)
        finished = start(processes, SCRIPT, run_of("llama-3-8b"), directory, json.dumps(mesh))
        assert finished.returncode == 0, finished.stderr[-3000:]
        rows = read_metrics(directory)
        losses[processes] = [row["loss"] for row in rows]
    assert losses[2] == pytest.approx(losses[1], rel=1e-5)
