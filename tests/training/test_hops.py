"""How many calls a reader follows from a run's loop to the model, and how little they are given."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
from rich.console import Console

import anyformer
from anyformer.model.transformer import Transformer
from anyformer.training import train
from anyformer.training.parallel.pipeline import Pipelined
from anyformer.training.passes import Gathered, MicroBatchLoss, OneByOne
from anyformer.training.step import Updates

PACKAGE = str(Path(anyformer.__file__).parent)
MOST = 5
"""Calls from the loop to the model."""


def standing() -> list[str]:
    """The functions of the package that are running, the innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


def test_five_calls_lead_from_the_loop_of_a_run_to_its_model(tiny, tmp_path, monkeypatch):
    real, seen = Transformer.forward, []

    def forward(self, *given, **named):
        if "Session._update" in (stack := standing()):
            seen.append(stack)
        return real(self, *given, **named)

    monkeypatch.setattr(Transformer, "forward", forward)
    train(tiny.but(steps=1), tmp_path / "run", console=Console(quiet=True))
    assert len(seen) == tiny.accumulation
    for stack in seen:
        calls = [*reversed(stack[: stack.index("Session._update")]), "Transformer.forward"]
        assert len(calls) <= MOST, calls
        assert not [name for name in calls if "<" in name], "neither a lambda nor a function in a function"


@pytest.mark.parametrize("passes", [OneByOne, Gathered, Pipelined])
def test_a_way_through_the_micro_batches_is_a_class_with_one_method(passes):
    assert [name for name, value in vars(passes).items() if callable(value) and name[0] != "_"] == ["add_gradients"]
    assert [name for name, value in vars(MicroBatchLoss).items() if callable(value) and name[0] != "_"] == ["summed"]


def test_an_update_is_given_six_things_at_most():
    assert len(inspect.signature(Updates.update).parameters) <= 6
