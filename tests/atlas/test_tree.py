"""The family tree and the trends: their sums, and the rule of the nearest earlier design."""

from __future__ import annotations

from collections import Counter

from anyformer.atlas.holders import family_of, mechanisms_of
from anyformer.atlas.tree import apart, before, descent, grouped, nearest, tree
from anyformer.atlas.trends import trends
from anyformer.catalogue import listing


def test_every_entry_stands_in_one_design_of_its_own_mechanisms():
    counts = Counter(entry.name for each in tree() for entry in each.design.entries)
    assert counts == Counter(entry.name for entry in listing())
    for each in tree():
        for entry in each.design.entries:
            assert mechanisms_of(entry.name) == each.design.mechanisms
            assert family_of(entry) == family_of(each.design.entries[0])
            assert entry.year >= each.design.year


def test_what_is_gained_and_lost_is_the_difference_to_a_design_that_is_earlier():
    designs = [each.design for each in tree()]
    for each in tree():
        own, parent = set(each.design.mechanisms), set(each.parent.mechanisms) if each.parent else set()
        assert {taken.mechanism for taken in each.gained} == own - parent
        assert set(each.lost) == parent - own
        if each.parent is not None:
            same = family_of(each.parent.entries[0]) == family_of(each.design.entries[0])
            assert (each.parent.year, designs.index(each.parent)) < (each.design.year, designs.index(each.design))
            assert each.parent.year < each.design.year or same


def test_a_mechanism_is_first_here_where_no_earlier_design_has_it_and_else_was_seen_in_one_that_has():
    designs = [each.design for each in tree()]
    for each in tree():
        earlier = before(each.design, designs)
        for taken in each.gained:
            having = [other for other in earlier if taken.mechanism in other.mechanisms]
            assert (taken.seen is None) == (not having)
            assert taken.seen is None or taken.seen in having


def test_no_earlier_design_differs_less_than_the_parent():
    designs = [each.design for each in tree()]
    for each in tree()[::15]:
        least = min((apart(each.design, other) for other in before(each.design, designs)), default=None)
        assert least == (None if each.parent is None else apart(each.design, each.parent))


def test_only_the_first_year_has_no_parents():
    roots = [each.design for each in tree() if each.parent is None]
    assert [each.name for each in roots] == ["transformer-base"]


def test_of_equally_near_designs_one_of_the_family_is_the_parent_and_then_the_latest():
    qwen = {each.name: each for each in grouped(entry for entry in listing() if entry.lineage == "qwen")}
    llama = next(each.design for each in tree() if each.design.name == "llama-7b")
    for designs in ([qwen["qwen-1.8b"], llama], [llama, qwen["qwen-1.8b"]]):
        assert apart(qwen["qwen-1.8b"], llama) == 1
        assert nearest(qwen["qwen1.5-0.5b"], designs) == qwen["qwen-1.8b"]


def test_llama_gained_what_gpt_j_has_not():
    found = next(each for each in tree() if each.design.name == "llama-7b")
    assert {taken.mechanism.name for taken in found.gained} == {"RMSNorm", "SwiGLU"}
    assert {each.name for each in found.lost} >= {"LayerNorm", "GELU", "parallel attention and network"}
    assert descent(found.design, [each.design for each in tree()]) == found


def test_trends_count_every_family_once_in_every_year():
    pairs = {(entry.year, family_of(entry)) for entry in listing()}
    every = trends(listing())
    for each in every:
        assert sum(year.families for year in each.years) == len(pairs)
        assert all(0 <= year.having <= year.families for year in each.years)
        holding = {(entry.year, family_of(entry)) for entry in listing() if each.mechanism in mechanisms_of(entry.name)}
        assert sum(year.having for year in each.years) == len(holding)
    assert {each.mechanism.name for each in every} >= {
        "RMSNorm", "grouped-query attention (GQA)", "mixtures of experts", "layers without positions (NoPE)",
        "rotary positions (RoPE)", "SwiGLU", "tied embeddings", "biases of networks", "biases of queries, keys or values",
    }  # fmt: skip


def test_sizes_of_a_line_count_once():
    qwen = [entry for entry in listing() if entry.lineage == "qwen"]
    (rms,) = (each for each in trends(qwen) if each.mechanism.name == "RMSNorm")
    assert {(year.having, year.families) for year in rms.years} == {(1, 1)}
