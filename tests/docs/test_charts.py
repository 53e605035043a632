"""The charts of docs/pictures are there, as small as a page wants them, and drawn by commands that exist."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MADE = runpy.run_path(str(DOCS / "make_charts.py"))


@pytest.mark.parametrize("name", MADE["COMMANDS"])
def test_a_chart_is_there_and_small(name):
    assert 10_000 < (DOCS / "pictures" / name).stat().st_size < 150_000


def test_the_command_of_a_chart_draws_it_again(tmp_path):
    """The same picture gives the same bytes, so that a picture drawn again changes only when it looks different."""
    name = "masks-gemma-3-27b.svg"
    drawn = []
    for _ in range(2):
        MADE["draw"](name, tmp_path)
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0] == drawn[1]
