"""What storing in few bits costs: a rehearsal of the study, and its committed result within the bounds that the page states."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import quantised as study

from anyformer.data import Split
from anyformer.evaluation import open_subject
from anyformer.quantising import FORMATS, Grouped
from anyformer.training.held_out import corpus_of

MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_precision.py"))
FORMS = {(name, calibrated) for name, format in FORMATS.items() for calibrated in {False, isinstance(format, Grouped)}}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """A tiny run and what was measured of it."""
    place = tmp_path_factory.mktemp("study")
    (place / "text.py").write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(1500)))
    run = study.run_of(0, study.TINY, (str(place / "text.py"),))
    return run, place / "run", study.measured(run, place / "run", study.TINY)


def test_every_format_is_measured_and_its_bytes_are_those_of_the_price(rehearsed):
    rows = rehearsed[2]["formats"]
    assert {(row["format"], row["calibrated"]) for row in rows} == FORMS
    assert all(row["predicted_bytes"] == row["allocated_bytes"] for row in rows)
    assert [row["beyond"] for row in rows if row["format"] == study.BESIDE] == [[0.0] * study.TINY.windows]
    assert all(any(row["beyond"]) for row in rows if row["format"] != study.BESIDE)


def test_a_run_that_is_there_is_not_trained_again(rehearsed, monkeypatch):
    run, directory, found = rehearsed
    monkeypatch.setattr(study, "train", None)
    monkeypatch.setattr(study, "resume", None)
    assert study.measured(run, directory, study.TINY) == found


def test_losses_are_those_of_each_window_alone(rehearsed):
    run, directory, _ = rehearsed
    model, text = open_subject(directory).model, corpus_of(run).validation
    assert isinstance(text, Split)
    counts, nats = study.losses(model, text, study.TINY)
    every = -(-(len(text) - 1) // run.length)
    tokens = np.asarray(text.tokens).astype(np.int64)
    for place in range(study.TINY.windows):
        start = (2 * place + 1) * every // (2 * study.TINY.windows) * run.length
        piece = torch.from_numpy(tokens[start : start + run.length + 1])
        with torch.no_grad():
            logs = model(piece[None, :-1]).double().log_softmax(-1)[0]
        expected = -sum(float(logs[i, target]) for i, target in enumerate(piece[1:].tolist()))
        assert counts[place] == len(piece) - 1
        assert nats[place] == pytest.approx(expected, rel=1e-5)


def test_the_committed_result_is_of_enough_text_and_its_bytes_are_those_of_the_price():
    record = json.loads(study.RESULT.read_text())
    assert [each["seed"] for each in record["results"]] == list(study.SEEDS)
    assert len({tuple(each["targets"]) for each in record["results"]}) == 1, "the same windows for every seed"
    for each in record["results"]:
        assert sum(each["targets"]) >= 30_000
        assert {(row["format"], row["calibrated"]) for row in each["formats"]} == FORMS
        assert all(row["predicted_bytes"] == row["allocated_bytes"] for row in each["formats"])
        whole = next(row["loss"] for row in each["formats"] if row["format"] == study.BESIDE)
        for row in each["formats"]:
            assert row["loss"] - whole == pytest.approx(sum(row["beyond"]) / sum(each["targets"]), abs=2e-6)


def test_the_committed_result_is_within_the_bounds_that_the_page_states():
    """With every seed, and at the upper end of the interval over windows."""
    few = MAKER["FewBits"](json.loads(study.RESULT.read_text()))
    for (name, calibrated), bound in MAKER["BOUNDS"].items():
        beyond = [*few.seeds(name, calibrated), few.beyond(name, calibrated).high]
        assert max(map(np.expm1, beyond)) <= bound, (name, calibrated)
        assert f"{100 * bound:g} %" in "".join(MAKER["pages"]().values())


def test_a_bound_that_one_seed_breaks_is_noticed():
    record = json.loads(study.RESULT.read_text())
    for row in record["results"][1]["formats"]:
        row["beyond"] = [nats + 3 for nats in row["beyond"]]
    few = MAKER["FewBits"](record)
    assert all(np.expm1(max(few.seeds(*form))) > bound for form, bound in MAKER["BOUNDS"].items())
