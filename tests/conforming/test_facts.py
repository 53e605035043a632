"""Lengths and tokens at which engines go wrong, and cases that a model has nothing for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anyformer.conforming import CASES, ModelFacts, NotAskedError, chosen
from anyformer.describe import UserError
from anyformer.resolving import architecture
from anyformer.text.conventions import Conventions


def facts(name, longest=2048, chunk=512, **conventions):
    return ModelFacts.of(architecture(name), None, Conventions(**conventions), longest=longest, chunk=chunk)


@pytest.mark.parametrize(
    ("name", "windows", "trained"),
    [
        ("gpt2", (), ()),
        ("gemma-2-2b", (4096,), ()),
        ("llama-4-scout", (8192,), (8192,)),
        ("llama-3.1-8b", (), (8192,)),
        ("deepseek-v3", (), (4096,)),
    ],
)
def test_windows_and_original_contexts_are_those_of_the_description(name, windows, trained):
    found = facts(name)
    assert (found.windows, found.trained) == (windows, trained)


def test_no_request_is_longer_than_may_be_read():
    for longest in (4, 5, 17, 64, 65, 200, 1024):
        plain = facts("gpt2", longest=longest, chunk=16)
        found = replace(plain, windows=(6, 40), trained=(30,), ends=(3,), texts={"a": (5, 6)})
        for case in CASES:
            try:
                rounds = case.rounds(found)
            except NotAskedError:
                continue
            asked = [request for requests in rounds for request in requests]
            assert max(each.length + each.count for each in asked) <= longest, (case.name, longest)
            assert all(each.length and each.count for each in asked), (case.name, longest)


def test_plain_texts_stay_within_windows():
    found = replace(facts("gpt2"), windows=(8,))
    for case in chosen(["plain", "reset", "lengths", "decode", "batch", "vocabulary", "temperature"]):
        asked = [request for requests in case.rounds(found) for request in requests]
        assert all(each.length + each.count - 1 <= 8 for each in asked), case.name


def test_what_a_model_has_nothing_for_says_why():
    found = facts("gpt2", longest=100, chunk=512)
    said = {}
    for case in CASES:
        try:
            case.rounds(found)
        except NotAskedError as reason:
            said[case.name] = str(reason)
    assert said.keys() == {"text", "ends", "windowed", "chunked"}
    assert "say so with --chunk" in said["chunked"]
    short = facts("llama-3.1-8b")
    with pytest.raises(NotAskedError, match="give --longest 16384"):
        chosen(["long"])[0].rounds(short)
    with pytest.raises(UserError, match="a longer --longest"):
        facts("gpt2", longest=3)


def test_drawn_tokens_are_ordinary_and_the_same_again():
    found = replace(facts("gpt2"), unusual=frozenset(range(50_000)))
    assert found.drawn("a", 20) == found.drawn("a", 30)[:20] != found.drawn("b", 20)
    assert min(found.drawn("a", 200)) >= 50_000
