"""`anyformer cost NAME --measure` as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from anyformer.catalogue import architecture
from anyformer.cli import app
from anyformer.costs import hardware_of
from anyformer.describe import UserError, to_toml
from anyformer.measuring.measure import measure
from anyformer.measuring.trial import NotEnoughMemoryError


@pytest.fixture(autouse=True)
def at_once(monkeypatch, tmp_path):
    """No five seconds of calibration."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("anyformer.training.measured_hardware.calibrated", lambda device: hardware_of("h100"))


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(architecture("gpt2", tiny=True)))
    return str(path)


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["cost", *arguments, "--measure"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def test_predicted_stands_beside_measured(tiny):
    output = call(tiny)
    assert "2 x 64 tokens" in output, "its position table ends there"
    assert "of the whole model" in output
    rows = {line.split("  ")[0]: line.split() for line in output.splitlines() if line}
    assert "too small to predict: below 50 ms the overhead of eager operations decides" in output
    assert rows["parameters"][-4:] == ["9,056", "9,056", "0", "exact"]
    assert rows["forward FLOPs"][-2:] == ["0", "exact"]
    assert rows["backward FLOPs"][-2:] == ["0", "exact"]
    assert rows["decode state"][-2:] == ["0", "exact"]
    assert rows["saved for backward"][-2:] == ["within", "1%"]
    assert "should be exact" not in output


def test_batch_and_length_are_the_user_s(tiny):
    assert "3 x 10 tokens, fp32" in call(tiny, "--batch", "3", "--length", "10", "--precision", "fp32")


def test_a_length_beyond_the_position_table_is_refused(tiny):
    with pytest.raises(UserError, match="position table ends at 64, and --length is 65"):
        call(tiny, "--length", "65")


def test_json(tiny):
    found = json.loads(call(tiny, "--json", "--device", "cpu"))
    assert found["exact"] is True
    parameters = found["comparisons"][0]
    assert parameters["quantity"] == "parameters"
    assert parameters["predicted"] == parameters["measured"] == 9_056


def test_a_prediction_that_must_be_exact_and_is_not_ends_with_1(tiny, monkeypatch):
    def off(*arguments, **more):
        found = measure(*arguments, **more)
        first = replace(found.comparisons[0], measured=found.comparisons[0].measured + 1)
        return replace(found, comparisons=(first, *found.comparisons[1:]))

    monkeypatch.setattr("anyformer.measuring.measure.measure", off)
    assert "should be exact" in call(tiny, code=1)


def test_too_little_memory_is_said_before_any_work(monkeypatch):
    monkeypatch.setattr("anyformer.measuring.measure.free_memory", lambda device: 10**8)
    monkeypatch.setattr("anyformer.costs.counted.build", lambda *_, **__: pytest.fail("nothing may be built"))
    with pytest.raises(NotEnoughMemoryError, match=r"tokens needs .* GB, and of 0\.1 GB that are free"):
        call("llama-3-8b")


def test_a_device_that_is_not_there_is_refused(tiny, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="--device cuda: torch sees no CUDA device"):
        call(tiny, "--device", "cuda")
