"""Threads that wait for one another let a busy machine work meanwhile."""

from __future__ import annotations

import pytest

from anyformer.cli.threads import load_of_machine, yield_when_busy


@pytest.mark.parametrize(
    ("said", "load", "cores", "then"),
    [
        ({}, 0.4, 2, {}),
        ({}, 0.5, 2, {"OMP_WAIT_POLICY": "passive"}),
        ({}, 15.0, 64, {}),
        ({"GOMP_SPINCOUNT": "100"}, 9.0, 2, {"GOMP_SPINCOUNT": "100"}),
        ({"OMP_WAIT_POLICY": "active"}, 9.0, 2, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_they_sleep_on_a_busy_machine_unless_the_user_says_otherwise(said, load, cores, then):
    environment = dict(said)
    yield_when_busy(environment, load, cores)
    assert environment == then


def test_a_system_that_does_not_say_is_idle(monkeypatch):
    assert load_of_machine() >= 0
    monkeypatch.delattr("os.getloadavg", raising=False)
    assert load_of_machine() == 0
