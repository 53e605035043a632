"""What classes say of themselves to a page: what a field takes, and what fits a slot."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture
from anyformer.describe import DescriptionError, Value, change_all
from anyformer.exploring.classes import all_slots, class_facts, field_facts, kinds, papers_of, slot_of, word_of
from anyformer.model import Architecture
from anyformer.parts import Attention, FeedForward
from anyformer.parts.attention.score import Score
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.step import Step
from anyformer.parts.positions.rotary import Rotary


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [
        (Attention, "heads", {"type": "integer", "required": True, "optional": False, "ge": 1}),
        (Attention, "kv_heads", {"type": "integer", "required": False, "optional": True, "ge": 1}),
        (Attention, "mask", {"type": "part", "slot": "Mask"}),
        (Attention, "place", {"type": "parts", "slot": "Place"}),
        (Score, "softcap", {"type": "number", "gt": 0, "optional": True}),
        (FeedForward, "gated", {"type": "boolean"}),
        (Branch, "dropout", {"type": "number", "ge": 0, "lt": 1, "default": 0.0}),
        (Branch, "added", {"type": "choice", "choices": ["after_block"], "optional": True}),
        (Branch, "sublayer", {"type": "part", "slot": "Sublayer", "required": True}),
        (Step, "branches", {"type": "table", "slot": "Branch"}),
        (Step, "residual_scale", {"type": "number", "choices": ["by_layer"], "default": 1.0}),
        (Architecture, "source", {"type": "choice", "choices": ["attended", "prefix"], "default": "attended"}),
    ],
)
def test_what_a_field_takes(kind, name, wanted):
    facts = field_facts(kind, name)
    assert {key: facts.get(key) for key in wanted} == wanted
    assert not {"ge", "gt", "le", "lt", "choices", "slot"} & (facts.keys() - wanted.keys())


def test_an_activation_is_chosen_among_those_of_its_table():
    facts = field_facts(FeedForward, "activation")
    assert facts["type"] in ("choice", "part")
    assert "silu" in (facts.get("choices") or kinds()[facts["slot"]])


def test_a_class_says_its_sentence_and_its_papers():
    facts = class_facts(Attention)
    assert (facts["kind"], facts["sentence"]) == ("attention", "Self-attention")
    assert [paper["arxiv"] for paper in facts["papers"]] == ["1706.03762", "1911.02150", "2305.13245"]
    assert [paper["said"] for paper in facts["papers"]] == ["Vaswani et al. 2017", "Shazeer 2019", "Ainslie et al. 2023"]
    assert facts["fields"]["heads"]["doc"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("as in Su et al. 2021 (arXiv 2104.09864).", "Su et al. 2021"),
        ("(Zhang and Sennrich 2019, arXiv 1910.07467)", "Zhang and Sennrich 2019"),
        ("JetMoE: one beside all experts, arXiv 2404.07413", "arXiv 2404.07413"),
    ],
)
def test_a_paper_is_said_by_its_authors_where_they_stand_before_it(text, said):
    (paper,) = papers_of(text)
    assert paper["said"] == said
    assert [*papers_of("no number, 12345.678 and 3.14159")] == []


def test_words_that_choose_a_class():
    assert (word_of(Attention), word_of(Rotary), word_of(Branch)) == ("attention", "rotary", None)


def test_every_slot_of_every_description_is_known_with_all_that_fits():
    found = kinds()
    assert found.keys() == all_slots().keys()
    assert {"attention", "experts", "mamba2", "feedforward"} <= {each["kind"] for each in found["Sublayer"]["kinds"]}
    for name, slot in all_slots().items():
        assert slot.classes, name
        assert all(issubclass(each, Value) for each in slot.classes.values())
    assert slot_of(Architecture, "width") is None


def test_kinds_say_what_they_need_and_nothing_else_is_needed():
    """Every mask put into GPT-2 with what it needs is taken, and refused without."""
    made, path = architecture("gpt2"), "decoder.layer.attention.mask"
    values = {"integer": 8, "list": [8], "number": 0.5}
    for kind in kinds()["Mask"]["kinds"]:
        needs = {need["name"]: values.get(need["type"]) for need in kind["needs"]}
        if "masks" in needs:
            needs["masks"] = [{"kind": "causal"}, {"kind": "causal"}]
        if kind["kind"] in ("bidirectional", "prefix", "global_tokens"):
            continue  # what the whole does not take
        change_all(made, {path: {"kind": kind["kind"], **needs}})
        for name in needs:
            lacking = {other: item for other, item in needs.items() if other != name}
            with pytest.raises(DescriptionError, match="is required"):
                change_all(made, {path: {"kind": kind["kind"], **lacking}})
