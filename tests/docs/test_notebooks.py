"""The notebooks run from top to bottom, and say what they were committed with, but where a cell is marked as measured."""

from __future__ import annotations

import json
from pathlib import Path

import make_notebooks
import nbformat
import pytest

from covering import but_slow
from forking import forked

NOTEBOOKS = sorted(make_notebooks.NOTEBOOKS.glob("*.ipynb"))
REMEDY = "run: python docs/make_notebooks.py"
TRAINS = {"look-inside", "fine-tune-and-hand-over"}
"""Train a model for seconds: their cells are run without a kernel, which begins for seconds too."""
SLOW = {"train-and-compare"}
"""Trains six models in processes of their own."""
LATER = {"look-inside"}
"""Trains the longest of `TRAINS`; docs/inspect.md asks the same functions in each run."""


def cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def hold(path, made):
    """The cells of a notebook that ran, as lists of texts, are those that were committed."""
    for before, after in zip(cells(nbformat.read(path, as_version=4)), made, strict=True):
        if make_notebooks.MEASURED not in before.metadata.get("tags", ()):
            assert after == make_notebooks.said(before), f"{before.source}\n{REMEDY}"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW | TRAINS)) for path in NOTEBOOKS],
)
def test_it_runs_and_says_what_it_said(path, tmp_path):
    hold(path, map(make_notebooks.said, cells(make_notebooks.executed(path, tmp_path))))


@pytest.mark.parametrize("name", but_slow(sorted(TRAINS), TRAINS - LATER))
def test_its_cells_say_what_they_said(name, tmp_path):
    path = make_notebooks.NOTEBOOKS / f"{name}.ipynb"
    ran = forked(tmp_path, str(Path(__file__).with_name("notebook_cells.py")), str(path), "cells.json")
    assert ran.returncode == 0, ran.stderr
    said = json.loads((tmp_path / "cells.json").read_text(encoding="utf-8"))
    hold(path, [[text.replace(f"{tmp_path}/", "") for text in texts] for texts in said])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_as_it_ran(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), REMEDY
    said = "".join(text for cell in cells(notebook) for text in make_notebooks.said(cell))
    assert str(Path.home()) not in said
    assert "/tmp/" not in said
    assert path.stat().st_size < 100_000


def test_there_are_the_four_that_the_pages_name():
    start = (make_notebooks.NOTEBOOKS.parent / "start.md").read_text(encoding="utf-8")
    assert [path.stem for path in NOTEBOOKS] == sorted(
        ["describe-and-price", "train-and-compare", "fine-tune-and-hand-over", "look-inside"]
    )
    assert all(f"notebooks/{path.name}" in start for path in NOTEBOOKS)
