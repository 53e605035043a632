"""Who has which mechanism is what the descriptions say, counted here in another way."""

from __future__ import annotations

import json

import pytest

from anyformer.atlas.documentation import documented
from anyformer.atlas.holders import facts, families, family_of, holders, words
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.topic import mechanisms, topics
from anyformer.catalogue import architecture, listing

PLAIN = {("wiring", "serial"), ("window", "full")}
"""Words of the columns that say that there is nothing special."""
STRUCTURE = {
    "AllOf", "AnyOf", "AveragedProjector", "Bidirectional", "Block", "BlockWindow", "Causal", "Centred", "ChainedProjector",
    "Compressor", "CondensedProjector", "Condition", "Constant", "DeepStack", "EncodedImages",
    "GappedPosition", "Initialisation", "LayerInput", "LinearProjector", "Marks", "MergedProjector", "Numbered",
    "PowerTemperature", "ScaledGain",
    "RelativeTable", "ResampledPosition", "Router", "RowNorm", "SharedBias", "SideBySideProjector", "SquaresProjector",
    "TopK", "TwoLayerProjector", "WaveLayer", "Gate",
}  # fmt: skip
"""Parts that hold others together, or stand only beside a mechanism that has a name."""


def named(name: str) -> Mechanism:
    return next(each for each in mechanisms() if each.name == name)


def norms_of(made):
    return [norm for stack in made.stacks.values() for block in stack.variants.values() for norm in block.norms]


@pytest.mark.parametrize(("name", "has"), [
    ("RMSNorm", lambda made: "RMSNorm" in {type(norm).__name__ for norm in norms_of(made)}),
    ("tied embeddings", lambda made: made.head is not None and made.head.tied),
    ("YaRN", lambda made: '"kind": "yarn"' in json.dumps(made.plain())),
    ("shared experts", lambda made: '"shared": {"feedforward"' in json.dumps(made.plain())),
    ("multi-token prediction (MTP)", lambda made: made.mtp is not None and made.mtp.kind == "sequential"),
])  # fmt: skip
def test_those_that_have_a_mechanism_are_those_whose_descriptions_say_so(name, has):
    expected = {entry.name for entry in listing() if has(architecture(entry.name))}
    assert {entry.name for entry in holders(named(name)).entries} == expected
    assert expected


def test_mixtures_are_those_with_experts_in_the_table():
    assert {entry.name for entry in holders(named("mixtures of experts")).entries} == {
        entry.name for entry in listing() if entry.columns.experts
    }


def test_every_word_of_the_table_is_a_mechanism_of_some_topic():
    assert set(words()) - PLAIN == {(each.column, each.word) for each in mechanisms() if each.column}


def test_every_part_of_the_catalogue_is_a_mechanism_or_holds_others_together():
    used = {name for own in facts().values() for name in own.parts} & set(documented())
    assert used - {each.part for each in mechanisms()} == STRUCTURE & used
    assert used >= STRUCTURE, "a name that no entry needs"


def test_mechanisms_have_one_name_and_stand_in_one_topic():
    names = [each.name for each in mechanisms()]
    assert len(names) == len(set(names))
    for each in mechanisms():
        assert holders(each).entries, f"no entry has {each.query}: leave it out"
        assert each in topics()[each.topic].mechanisms


def test_the_first_are_of_the_first_year_and_one_of_a_family():
    for each in mechanisms():
        found = holders(each)
        assert {entry.year for entry in found.first} == {found.since}
        assert len({family_of(entry) for entry in found.first}) == len(found.first)
        assert {family_of(entry) for entry in found.entries if entry.year == found.since} == set(families(found.first))
