"""Every text-capable model type of transformers is read, read as a composite's text, or refused with what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyformer import huggingface
from huggingface.every_type import DEFAULTS, READ, default_config, outcome, refusal, text_capable

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "families.md"
TYPES = sorted(text_capable())


def test_each_has_one_outcome():
    kinds = [READ, huggingface.COMPOSITES.keys(), huggingface.MISSING.keys()]
    assert {name: found for name in TYPES if (found := sum(name in kind for kind in kinds)) != 1} == {}


def test_what_is_missing_is_told_of_types_that_there_are():
    inner = {
        str(table["model_type"])
        for name in TYPES
        for table in default_config(name).values()
        if isinstance(table, dict) and "model_type" in table
    }
    assert set(huggingface.MISSING) - set(TYPES) - inner == set()


@pytest.mark.parametrize("model_type", TYPES)
def test_the_default_configuration(model_type):
    said = refusal(model_type)
    if model_type in huggingface.MISSING:
        assert huggingface.MISSING[model_type] in said
    elif model_type in DEFAULTS:
        assert said
        assert "model type" not in said
    else:
        assert said == ""


def test_the_page_says_so():
    rows = [line.strip("|").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {row[0].strip().strip("`"): row[-1].strip() for row in rows if len(row) == 3}
    assert told == {model_type: outcome(model_type) for model_type in TYPES}, "run python docs/make_families.py --types"
