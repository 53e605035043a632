"""The notebooks run from top to bottom, and say what they were committed with, but where a cell is marked as measured."""

from __future__ import annotations

from pathlib import Path

import make_notebooks
import nbformat
import pytest

NOTEBOOKS = sorted(make_notebooks.NOTEBOOKS.glob("*.ipynb"))
REMEDY = "run: python docs/make_notebooks.py"
SLOW = {"train-and-compare"}
"""Trains six models in processes of their own."""


def cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in NOTEBOOKS]
)
def test_it_runs_and_says_what_it_said(path, tmp_path):
    committed, made = nbformat.read(path, as_version=4), make_notebooks.executed(path, tmp_path)
    for before, after in zip(cells(committed), cells(made), strict=True):
        if make_notebooks.MEASURED not in before.metadata.get("tags", ()):
            assert make_notebooks.said(after) == make_notebooks.said(before), (
                f"{before.source}\nrun: python docs/make_notebooks.py"
            )


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
