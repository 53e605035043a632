"""`--no-compile`, for a machine on which compiling takes longer than it saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyformer.cli.arguments import compiled
from anyformer.describe import UserError

RECIPE = str(Path(__file__).parents[2] / "recipes" / "stdlib.toml")


def test_it_is_a_value_of_the_plan():
    assert compiled(None, {"steps": 3}) == {"steps": 3}
    assert compiled(False, {"steps": 3}) == {"steps": 3, "plan.compile": "off"}
    assert compiled(True, {}, "base.plan.compile") == {"base.plan.compile": "on"}
    with pytest.raises(UserError, match=r"either --no-compile or --set plan\.compile"):
        compiled(False, {"plan.compile": "on"})


@pytest.mark.parametrize(("option", "then"), [("--no-compile", "off"), ("--compile", "on")])
def test_a_run_is_trained_with_it(call, monkeypatch, option, then):
    given = []

    def train(run, out, began, console):
        given.append(run)
        raise UserError("enough")

    monkeypatch.setattr("anyformer.training.train", train)
    done = call("train", RECIPE, option)
    assert (done.returncode, "enough" in done.stderr) == (2, True)
    assert given[0].plan.compile == then
    assert len(given[0].smaller) == 3, "and the sizes are still there to choose from"
    assert not any("plan.compile" in text for size in given[0].smaller for text in size.set), "and do not undo it"
