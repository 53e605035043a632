"""Tokenizers that would take hours or gigabytes are refused, or end in words."""

from __future__ import annotations

import json

import pytest
import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from anyformer.text import DataError, Tokenizer


def definition(**stages):
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "▁": 2}, merges=[]))
    return json.dumps(json.loads(inner.to_str()) | stages)


def replacing(*pairs, regex=False):
    return [{"type": "Replace", "pattern": {"Regex" if regex else "String": old}, "content": new} for old, new in pairs]


def split(expression):
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(expression), "isolated")
    return inner.to_str()


@pytest.mark.parametrize(
    "stages",
    [
        {"normalizer": {"type": "Sequence", "normalizers": replacing(*[("a", "a" * 10)] * 9)}},
        {"normalizer": {"type": "Sequence", "normalizers": replacing(*[("a", "b" * 10), ("b", "a" * 10)] * 5)}},
        {"normalizer": {"type": "Sequence", "normalizers": replacing(*[(".", "aaaaaaaaaa")] * 9, regex=True)}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": replacing(("", "ab"))}] * 12}},
        {"normalizer": replacing(("a", "a" * 10**6))[0]},
        {"normalizer": {"type": "Sequence", "normalizers": replacing(*[("a", "b")] * 1001)}},
        {"decoder": {"type": "Sequence", "decoders": replacing(*[("a", "a" * 10)] * 9)}},
        {"decoder": {"type": "Sequence", "decoders": [stage | {"type": "a"} for stage in replacing(*[("a", "a" * 10)] * 9)]}},
        {"normalizer": replacing(("(?:)", "b" * 900), regex=True)[0]},
        {"normalizer": {"type": "Sequence", "normalizers": replacing(*[("(?:)", "b")] * 40, regex=True)}},
        {"decoder": {"type": "Sequence", "decoders": replacing(*[("", "b")] * 40)}},
    ],
)
def test_stages_that_make_a_text_ever_longer_are_refused(stages):
    with pytest.raises(DataError, match=r"not a tokenizer\.json .*(normalizer|decoder) (makes a text|puts|has)"):
        Tokenizer.parse(definition(**stages))


def test_many_stages_on_other_letters_are_none_of_these():
    stages = replacing(*[(letter, f"<{letter}>") for letter in "cdefghijklmnopqrstuvwxyz"], (" ", "▁"))
    tokenizer = Tokenizer.parse(definition(normalizer={"type": "Sequence", "normalizers": stages}))
    assert tokenizer.encode("a b") == [0, 2, 1]


@pytest.mark.parametrize(
    "expression", ["(a+)+$", "(a|aa)+$", "a*a*a*a*b", "(.*)*x", "(a{1,99}){1,99}b", r"(\w+\s?)+$", "a*a*b"]
)
@pytest.mark.parametrize("place", ["pre_tokenizer", "normalizer", "decoder"])
def test_an_expression_that_takes_longer_and_longer_is_refused(expression, place):
    replace = replacing((expression, "b"), regex=True)[0]
    stages = {place: json.loads(split(expression))["pre_tokenizer"] if place == "pre_tokenizer" else replace}
    with pytest.raises(DataError, match=rf"{place}: the regular expression .* a run of [\d,]+ '.*'; mend the tokenizer.json"):
        Tokenizer.parse(definition(**stages))


@pytest.mark.parametrize(
    "expression", [".", r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))", r"(?=(\d{3})+(?!\d))", r"\p{L}+|\s+", " {2,}"]
)
def test_expressions_like_published_ones_are_read(expression):
    assert Tokenizer.parse(split(expression)).encode("ab") == [0, 1]


def test_a_decoder_that_strips_is_none_of_these():
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    stages = {"type": "Sequence", "decoders": [*replacing(("▁", "  ")), {"type": "Fuse"}, strip]}
    assert Tokenizer.parse(definition(decoder=stages)).decode([2, 0]) == " a"


def test_what_the_library_gives_up_on_is_told(capfd):
    """An expression that no run of its own letters keeps busy."""
    tokenizer = Tokenizer.parse(split("((abba)(abba)?)+$"))
    for act in (tokenizer.encode, tokenizer.offsets):
        with pytest.raises(DataError, match=r"gives up on this text \(.*retry-limit.*mend the tokenizer.json"):
            act("abba" * 40 + "c")
