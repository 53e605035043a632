"""How a run ended is written where others can read it, and gone while it trains."""

from __future__ import annotations

import json
import sys

import pytest
from rich.console import Console

from anyformer.describe import UserError
from anyformer.training import resume, train
from anyformer.training.run_end import END, WAS_ASKED, end_recorded
from anyformer.training.step import Updates


def read(directory):
    facts = json.loads((directory / END).read_text())
    return {name: value for name, value in facts.items() if name != "at"}


def test_a_run_says_how_it_ended_each_time(tiny, tmp_path, monkeypatch):
    real = Updates.update

    def failing(self, batch, *more):
        assert not (tmp_path / "run" / END).exists(), "it trains"
        if batch.step == 5:
            raise UserError("the disk:\nis gone\nwholly")
        return real(self, batch, *more)

    quiet = Console(quiet=True)
    train(tiny.but(steps=4), tmp_path / "run", console=quiet)
    assert read(tmp_path / "run") == {"state": "finished", "step": 4, "reason": ""}
    monkeypatch.setattr(Updates, "update", failing)
    with pytest.raises(UserError):
        resume(tmp_path / "run", {"steps": 8}, console=quiet)
    assert read(tmp_path / "run") == {"state": "failed", "step": 5, "reason": "the disk: is gone"}


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (KeyboardInterrupt(), "stopped", WAS_ASKED),
        (UserError("too late;\n  stacks\n  of all"), "failed", "too late;"),
        (KeyError("x"), "failed", "KeyError('x')"),
    ],
)
def test_what_ended_it_is_the_reason(tmp_path, error, state, reason):
    with pytest.raises(type(error)), end_recorded(tmp_path, lambda: (3, False), writes=True):
        raise error
    assert read(tmp_path) == {"state": state, "step": 3, "reason": reason}


def test_one_that_was_stopped_and_saved_has_not_finished(tmp_path):
    with end_recorded(tmp_path, lambda: (3, False), writes=True):
        assert sys.exc_info() == (None, None, None)
    assert read(tmp_path) == {"state": "stopped", "step": 3, "reason": WAS_ASKED}


def test_one_process_alone_writes(tmp_path):
    with end_recorded(tmp_path, lambda: (3, True), writes=False):
        pass
    assert not (tmp_path / END).exists()
