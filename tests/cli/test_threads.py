"""Threads that wait for one another let a busy machine work meanwhile."""

from __future__ import annotations

import pytest

from anyformer.cli.threads import wait_briefly


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ({}, {"GOMP_SPINCOUNT": "1000"}),
        ({"GOMP_SPINCOUNT": "100"}, {"GOMP_SPINCOUNT": "100"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_they_sleep_soon_unless_the_user_says_otherwise(said, then):
    environment = dict(said)
    wait_briefly(environment)
    assert environment == then
