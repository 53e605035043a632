"""Every committed study in its shortest form: its arms are matched, and one of them, or each, is trained for two updates and
asked at the lengths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from anyformer.describe import change_all
from anyformer.studies import Study, load_study, resolve_arms
from anyformer.studies.lengths import asked
from anyformer.studies.outcome import Ended
from anyformer.studies.process import lay_out, run
from anyformer.studies.trials import Trial, final_trials
from covering import but_slow, cover
from stand_ins import few_records

RECIPES = sorted(
    path
    for path in (Path(__file__).parents[2] / "recipes" / "studies").glob("*.toml")
    if "\nbase = " in path.read_text(encoding="utf-8")
)
SHORT = {
    "steps": 2, "batch": 2, "schedule.warmup": 0, "evaluation.every": 2, "evaluation.batches": 1,
    "evaluation.final_tokens": 64, "checkpoints.every": 2,
}  # fmt: skip


PATHS = {path.stem: path for path in RECIPES}


def words(recipe: str) -> frozenset[str]:
    """The keys and tables of a study itself, and the kinds of positions that it names, on which the lengths depend."""
    return frozenset(re.findall(r'^\w+ =|^\[\w+|kind ?= ?"(?:\w*position|relative\w*|alibi)"', recipe, re.M))


CHOSEN = cover({name: path.read_text(encoding="utf-8") for name, path in PATHS.items()}, words)
"""Recipes that together have all of these; `make test-slow` trains arms of all."""


@pytest.mark.parametrize("name", PATHS)
def test_every_arm_is_there(name):
    assert len(trials_of(name)[2]) > 1


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one arm", "every arm"])
@pytest.mark.parametrize("name", but_slow(PATHS, CHOSEN))
def test_every_arm_is_trained_and_asked(name, whole, tmp_path):
    study, values, trials = trials_of(name)
    number = RECIPES.index(PATHS[name]) % len(trials)
    for trial in trials if whole else trials[number : number + 1]:
        place = tmp_path / trial.arm
        lay_out(trial, place)
        with few_records():
            assert run(place) == 0, trial.arm
        ended = Ended.read(place, trial.key)
        assert ended is not None, trial.arm
        assert ended.status == "finished", f"{trial.arm}: {ended}"
        assert set(asked(place)) == set(study.lengths), trial.arm
        assert json.loads((place / "trial.json").read_text())["value"] == values[trial.arm]


def trials_of(name: str) -> tuple[Study, dict[str, Any], list[Trial]]:
    """A study in short, the value that each arm takes, and its trials: one of each arm, in order."""
    study = load_study(PATHS[name])
    study = study.but(base=change_all(study.base, SHORT), seeds=(1,))
    values = {arm: None if study.tuning is None else study.grid(arm)[0] for arm in (study.base_name, *study.arms)}
    trials = list(final_trials(study, resolve_arms(study), "cpu", values))
    assert [trial.arm for trial in trials] == [study.base_name, *study.arms]
    return study, values, trials
