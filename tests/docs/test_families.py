"""The page of families lists what the package reads, with figures within what the tests allow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anyformer.catalogue import architecture
from anyformer.huggingface import COMPOSITES, FAMILIES, family, find_family
from huggingface.cases import CASES
from huggingface.composite_cases import HELD, case_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "families.md"
LINES = [line.removeprefix("|").removesuffix("|").split("|") for line in PAGE.read_text().splitlines() if line[:3] == "| `"]
TABLES: dict[int, dict[str, list[str]]] = {}
for cells in ([cell.strip() for cell in line] for line in LINES):
    TABLES.setdefault(len(cells), {})[cells[0].strip("`")] = cells
ROWS, WHOLE = TABLES[10], TABLES[7]
"""The families, and the composites."""
HINT = "run: python docs/make_families.py"


def test_every_family_has_its_row():
    known = {model_type: file for file, types in FAMILIES.items() for model_type in types}
    assert set(ROWS) == set(known), HINT
    for model_type, cells in ROWS.items():
        assert cells[1] == family(model_type).default_class, HINT
        assert f"/{known[model_type]}.py" in cells[2], HINT


@pytest.mark.parametrize("page", ["README.md", "docs/huggingface.md", "docs/reference/families.md"])
def test_pages_count_the_model_types_right(page):
    said = re.findall(r"(\d+) model types", (ROOT / page).read_text())
    assert [int(count) for count in said] == [sum(map(len, FAMILIES.values()))], HINT


def test_every_figure_is_within_what_the_tests_allow():
    for model_type, cells in ROWS.items():
        cases = [case for case in CASES if case.model_type == model_type]
        assert len(cases) == int(cells[3]) > 0, HINT
        logits = max(case.logits for case in cases)
        for figure in filter(None, cells[4:7]):
            assert float(figure) <= logits, (model_type, figure)
        assert float(cells[7]) <= max(case.gradients for case in cases), model_type


def test_every_composite_has_its_row_with_figures_that_the_tests_allow():
    assert set(WHOLE) == set(HELD), HINT
    for model_type, (_, cls, text, *figures) in WHOLE.items():
        assert (cls, text.strip("`")) == (COMPOSITES[model_type].default_class, COMPOSITES[model_type].text), HINT
        case = case_of(model_type)
        assert all(float(figure) <= case.logits for figure in filter(None, figures[:3])), model_type
        assert float(figures[3]) <= case.gradients, model_type


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one of each type", "all"])
def test_what_the_catalogue_is_exported_as(whole):
    listed = [(name, model_type) for model_type, cells in ROWS.items() for name in filter(None, cells[8].split(", "))]
    assert len(listed) > 200, HINT
    first = {model_type: (name, model_type) for name, model_type in reversed(listed)}.values()
    for name, model_type in listed if whole else first:
        assert find_family(architecture(name), model_type)[0].model_type == model_type, HINT
