"""The notation of layer orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoo import ZOO

from anyformer.parts.layers.order import MOST_VARIANTS, parse_order, write_order


@given(st.lists(st.sampled_from(["local", "full", "moe_2"]), min_size=1, max_size=40))
def test_writing_then_parsing_gives_the_names_back(names):
    assert list(parse_order(write_order(names))) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", "a"),
        ("a*3 b", "aaab"),
        ("(a*2 b)*2 a", "aabaaba"),
        ("((a b)*2 c)*2", "ababcababc"),
        ("  a * 2  b ", "aab"),
    ],
)
def test_notation(text, names):
    assert parse_order(text) == tuple(names)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("aabaaba", "(a*2 b)*2 a"),
        ("lllllelllllell", "(l*5 e)*2 l*2"),
        ("dddmmmm", "d*3 m*4"),
        ("abcdcdcd", "a b (c d)*3"),
        ("abc", "a b c"),
    ],
)
def test_what_repeats_is_written_once(names, text):
    """Gemma 3 has 62 layers, and its order should not be 200 characters long."""
    assert write_order(names) == text


@pytest.mark.parametrize("text", ["", "  ", "*3", "a**2", "a)", "(a", "a*0", "A", "a,b", "()"])
def test_what_makes_no_sense_is_refused(text):
    with pytest.raises(ValueError, match="order"):
        parse_order(text)


def test_so_many_variants_are_refused_and_not_priced():
    stack = ZOO["llama"].decoder
    names = [f"v{number}" for number in range(MOST_VARIANTS + 1)]
    variant = next(iter(stack.variants.values()))
    with pytest.raises(ValueError, match="1,001 variants, and a stack may have at most 1,000"):
        stack.but(variants=dict.fromkeys(names, variant), order=" ".join(names))
