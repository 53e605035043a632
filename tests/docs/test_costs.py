"""Outputs on docs/costs.md and other pages are those of today, its snippet runs, and what it points to exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from covering import but_slow

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_outputs.py"))
TEXT = "".join(path.read_text(encoding="utf-8") for path in MAKER["PAGES"] if path.parent != ROOT)
OUTPUTS = {found[1]: found for found in MAKER["BLOCK"].finditer(TEXT)}


@pytest.mark.parametrize("command", but_slow(OUTPUTS, [each for each in OUTPUTS if "--simulated" not in each]))
def test_outputs_are_those_of_today(command):
    """Queues that are played through take seconds: tests/planning/queues asks them for shorter ones in each run."""
    assert MAKER["block"](OUTPUTS[command]) == OUTPUTS[command][0], "run: python docs/make_outputs.py"


def test_the_snippet_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.S | re.M)
    exec(code, {"__name__": "costs"})


def test_what_it_points_to_exists():
    assert len(OUTPUTS) >= 8
    for place in re.findall(r"`(tests/[\w/.]+)`", TEXT):
        assert (ROOT / place).exists(), place
