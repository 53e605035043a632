"""What careful papers found comes out: `python -m benchmarks.known_answers`, in short here and whole where it is slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.known_answers import Arm, asked, induction, parity, recall

Found = Mapping[str, list[float]]


def reached(arms: Mapping[str, Arm], folder: Path) -> Found:
    """The accuracy of each arm, at each of its lengths."""
    return {
        name: [level.targets.accuracy for level in asked(arm, 0, folder / name).levels] for name, arm in arms.items()
    }  # fmt: skip


def test_a_state_that_changes_sign_keeps_the_parity(tmp_path):
    """In short: 8 bits, of which the delta rule with beta up to 1 learns the first."""
    arms = {name: replace(arm, lengths=(8, 32)) for name, arm in parity(100, length=8).items() if "delta" in name}
    found = reached(arms, tmp_path)
    signed, positive = found["gated delta, beta up to 2"], found["gated delta, beta up to 1"]
    assert signed[0] > 0.95
    assert signed[1] > positive[1] + 0.2, "at four times the trained length"


@pytest.mark.slow
def test_parity_beyond_the_trained_length(tmp_path):
    found = reached(parity(), tmp_path)
    assert min(found["gated delta, beta up to 2"]) > 0.9
    for name in ("gated delta, beta up to 1", "attention"):
        assert found[name][-1] < 0.56, f"{name}: the first bits are learnt, and the rest is chance"


@pytest.mark.slow
def test_attention_recalls_what_linear_attention_of_the_same_width_does_not(tmp_path):
    found = {name: accuracy for name, (accuracy,) in reached(recall(), tmp_path).items()}
    assert found["attention, 4 pairs"] > 0.95
    assert found["attention, 24 pairs"] > 0.9
    assert found["linear attention, 24 pairs"] < found["linear attention, 4 pairs"] < 0.6


@pytest.mark.slow
def test_induction_takes_two_layers(tmp_path):
    found = {name: accuracy for name, (accuracy,) in reached(induction(), tmp_path).items()}
    assert found["2 layers"] > 0.95
    assert found["1 layer"] < 0.2
