"""A whole study in processes of its own, killed at moments and started again, ends with the numbers of one left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from anyformer.describe import to_toml
from anyformer.studies.outcome import Ended, read_outcome


def start(file, out):
    words = [sys.executable, "-m", "anyformer", "compare", str(file), "--out", str(out), "--jobs", "2"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def trials_of(out):
    """Every process that trains in a directory of the study, whoever started it."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if "anyformer.studies.process" in line and str(out) in line]


def numbers(out):
    found = {}
    for place in (out / "trials").glob("*-seed*"):
        if (place / "trial.json").is_file():
            ended = Ended(**__import__("json").loads((place / "outcome.json").read_text()))
            outcome = read_outcome(place, ended)
            found[place.name] = (outcome.numbers, outcome.curve, outcome.training, outcome.largest_gradient)
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the processes of the machine by ps")
def test_a_killed_study_ends_with_the_same_numbers(study, tmp_path):
    """The study alone is killed, then the study and its trials; meanwhile a second process works on it too."""
    small = study.but(arms={"one_head": study.arms["one_head"]}, seeds=(1, 2), base=study.base.but(steps=40))
    (tmp_path / "study.toml").write_text(to_toml(small))
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    assert start(tmp_path / "study.toml", alone).wait(600) == 0
    for seconds, all_of_them in ((9, False), (6, True), (14, True)):
        process = start(tmp_path / "study.toml", killed)
        time.sleep(seconds)
        for pid in [process.pid, *(trials_of(killed) if all_of_them else [])]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
    both = [start(tmp_path / "study.toml", killed) for _ in range(2)]
    assert [process.wait(900) for process in both] == [0, 0]
    assert numbers(killed) == numbers(alone)
    assert len(numbers(alone)) == 4
