"""The catalogue: its index is what the modules say, and its counts are the published ones."""

from __future__ import annotations

import pytest

from anyformer.catalogue import INDEX, architecture, listing
from anyformer.catalogue.index import index
from anyformer.describe import DescriptionError, from_toml, to_toml
from anyformer.model import Architecture
from anyformer.tally import Shape

# Counted in the released checkpoints.
RELEASED = {
    "gpt2": 124_439_808,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
}


def test_the_index_is_up_to_date():
    assert INDEX.read_text(encoding="utf-8") == index(), "run: python -m anyformer.catalogue.index"


@pytest.mark.parametrize("name", RELEASED)
def test_parameters_are_those_of_the_release(name):
    assert architecture(name).cost(Shape()).parameters == RELEASED[name]


@pytest.mark.parametrize("entry", listing(), ids=lambda entry: entry.name)
def test_every_entry_survives_text_and_names_its_source(entry):
    made = architecture(entry.name)
    assert from_toml(Architecture, to_toml(made)) == made
    assert entry.source


def test_a_misspelt_name_is_refused_with_the_right_one():
    with pytest.raises(DescriptionError, match="llama-3-8b"):
        architecture("lama-3-8b")
