"""Sizes in words: k of a size is 1,024 wherever one is typed; what could be read in two ways is told in both."""

from __future__ import annotations

import pytest

from anyformer.catalogue.llama import llama
from anyformer.cli.amounts import tokens
from anyformer.data import Text
from anyformer.describe import Amount, DescriptionError, change, change_all, get, parse_assignment
from anyformer.training import Run

MODEL = llama(width=32, depth=4, heads=4, kv_heads=2, ffn=48, vocab=4096)
RUN = Run(steps=3, length=8, data=Text(paths=("x",)), architecture=MODEL)
ATTENTION = "decoder.layer.attention"


@pytest.mark.parametrize("size", ["128k", "1.5M", "4K", "8m", "128,000", "2_0k", "100"])
def test_a_size_means_what_it_does_as_a_length(size):
    made = change_all(MODEL, dict([parse_assignment(f"embedding.vocab={size}")]))
    assert made.embedding.vocab == tokens(size)
    assert change_all(RUN, dict([parse_assignment(f"length={size}")])).length == tokens(size)


@pytest.mark.parametrize(
    ("text", "path", "number"),
    [
        (f"{ATTENTION}.mask={{kind='window', size=1k}}", f"{ATTENTION}.mask.size", 1024),
        (
            f"{ATTENTION}.mask={{kind='all_of', masks=[{{kind='window', size=2k}}, {{kind='causal'}}]}}",
            f"{ATTENTION}.mask.masks.0.size",
            2048,
        ),
        (f"{ATTENTION}={{kind='attention', heads=4, mask={{kind='window', size=1k}}}}", f"{ATTENTION}.mask.size", 1024),
        ("decoder.position={kind='learned_position', length=8k}", "decoder.position.length", 8192),
        (f"{ATTENTION}.rotary.theta=1B", f"{ATTENTION}.rotary.theta", 1e9),
    ],
)
def test_sizes_stand_inside_tables_too(text, path, number):
    assert get(change_all(MODEL, dict([parse_assignment(text)])), path) == number


def test_a_size_is_read_by_the_kind_that_a_part_is_to_have():
    given = dict(map(parse_assignment, (f"{ATTENTION}.mask.size=2k", f"{ATTENTION}.mask.kind=window")))
    assert get(change_all(MODEL, given), f"{ATTENTION}.mask.size") == 2048


@pytest.mark.parametrize(
    ("value", "text", "said"),
    [
        (MODEL, f"{ATTENTION}.rotary.theta=500k", "rotary.theta: 500k could be 500,000 or, as in --length, 512,000: write"),
        (MODEL, f"{ATTENTION}.place={{kind='rotary', theta=1.5M}}", "1.5M could be 1,500,000 or, as in --length, 1,572,864"),
        (RUN, "steps=10k", "^steps: 10k could be 10,000 or, as in --length, 10,240: write the number that is meant$"),
        (MODEL, "embedding.vocab=0.3k", "embedding.vocab: 0.3k is 307.2, and this is a whole number"),
        (MODEL, "embedding.vocab=1B", "embedding.vocab: 1B is no size: k is 1,024 and M is 1,048,576, as in 128k or 1.5M"),
        (MODEL, 'embedding.vocab="128k"', "embedding.vocab: should be a valid integer, got '128k'"),
        (MODEL, "embedding.vocab=128kk", "embedding.vocab: should be a valid integer, got '128kk'"),
        (MODEL, f"{ATTENTION}.mask={{kind='windw', size=1k}}", "'windw' is no kind; did you mean 'window'"),
    ],
)
def test_what_is_no_size_or_could_be_two_is_refused(value, text, said):
    with pytest.raises(DescriptionError, match=said):
        change_all(value, dict([parse_assignment(text)]))


def test_words_stay_words_and_python_is_strict():
    assert change_all(RUN, dict([parse_assignment("sample=8k")])).sample == "8k"
    assert type(change_all(RUN, dict([parse_assignment("sample=8k")])).sample) is str
    assert parse_assignment("a={b='1k', c=[1k, \"2k\"]}") == ("a", {"b": "1k", "c": ["1k", "2k"]})
    inside = parse_assignment("a={b='1k', c=[1k, \"2k\"]}")[1]
    assert [type(each) for each in (inside["b"], *inside["c"])] == [str, Amount, str]
    with pytest.raises(DescriptionError, match="should be a valid integer, got '128k'"):
        change(MODEL, "embedding.vocab", "128k")
