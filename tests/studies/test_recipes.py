"""Every committed study in its shortest form: its arms are matched, and one of them, or each, is trained for two updates and
asked at the lengths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anyformer.describe import change_all
from anyformer.studies import load_study, resolve_arms
from anyformer.studies.lengths import asked
from anyformer.studies.outcome import Ended
from anyformer.studies.process import lay_out, run
from anyformer.studies.trials import final_trials

RECIPES = sorted(
    path
    for path in (Path(__file__).parents[2] / "recipes" / "studies").glob("*.toml")
    if "\nbase = " in path.read_text(encoding="utf-8")
)
SHORT = {
    "steps": 2, "batch": 2, "schedule.warmup": 0, "evaluation.every": 2, "evaluation.batches": 1,
    "evaluation.final_tokens": 64, "checkpoints.every": 2,
}  # fmt: skip


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one arm", "every arm"])
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_arm_is_trained_and_asked(path, whole, tmp_path):
    study = load_study(path)
    study = study.but(base=change_all(study.base, SHORT), seeds=(1,))
    values = {arm: None if study.tuning is None else study.grid(arm)[0] for arm in (study.base_name, *study.arms)}
    trials = list(final_trials(study, resolve_arms(study), "cpu", values))
    assert [trial.arm for trial in trials] == [study.base_name, *study.arms]
    number = RECIPES.index(path) % len(trials)
    for trial in trials if whole else trials[number : number + 1]:
        place = tmp_path / trial.arm
        lay_out(trial, place)
        assert run(place) == 0, trial.arm
        ended = Ended.read(place, trial.key)
        assert ended is not None, trial.arm
        assert ended.status == "finished", f"{trial.arm}: {ended}"
        assert set(asked(place)) == set(study.lengths), trial.arm
        assert json.loads((place / "trial.json").read_text())["value"] == values[trial.arm]
