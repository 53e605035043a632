"""What people type, and what is suggested to them."""

from __future__ import annotations

import re

import pytest

from anyformer.catalogue import architecture, listing
from anyformer.describe import DescriptionError, did_you_mean
from anyformer.describe.nearest import nearest
from anyformer.huggingface import HuggingFaceError, family

NAMES = [entry.name for entry in listing()]


@pytest.mark.parametrize(
    ("typed", "first", "among"),
    [
        ("LLaMA-3-8B", "llama-3-8b", ()),
        ("Qwen3-8B", "qwen3-8b", ()),
        ("GPT-2", "gpt2", ()),
        ("gpt2xl", "gpt2-xl", ()),
        ("llama3", "llama-3-8b", ("llama-3-70b", "llama-3.1-8b")),
        ("gpt3", "gpt3-large", ("gpt3-175b",)),
        ("gpt-3", "gpt3-large", ("gpt3-175b",)),
        ("mistral", "mistral-large-123b", ("mistral-7b-v0.1",)),
        ("Mixtral", "mixtral-8x7b", ("mixtral-8x22b",)),
        ("t5", "t5-base", ("t5-large", "t5-small", "t5-11b")),
        ("bert", "bert-base-cased", ("bert-large-uncased",)),
        ("deepseekv3", "deepseek-v3", ()),
        ("deeps", "deepseek-r1", ("deepseek-v3",)),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b", ()),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", ()),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b", ()),
        ("openai/gpt-oss-20b", "gpt-oss-20b", ()),
        ("google/gemma-2-9b-it", "gemma-2-9b", ()),
        ("lama-12m", "llama-12m", ()),
        ("llama-3-9b", "llama-3-8b", ()),
    ],
)
def test_what_people_type_finds_what_they_mean(typed, first, among):
    found = nearest(typed, NAMES)
    assert found[0] == first
    assert set(among) <= set(found)
    with pytest.raises(DescriptionError, match=f"did you mean '{re.escape(first)}'"):
        architecture(typed)


def test_a_number_is_not_the_beginning_of_another():
    assert not any(name.startswith("llama-33b") for name in nearest("llama3", NAMES))
    assert "roberta-base" not in nearest("bert", NAMES)


def test_sizes_stand_in_order():
    found = nearest("llama-2", NAMES)
    assert found == ["llama-2-7b", "llama-2-13b", "llama-2-70b"]


def test_what_is_spelled_alike_stands_the_likest_first():
    assert nearest("mistal-7b", ["mistral-7b-v0.1", "mixtral-8x7b"]) == ["mixtral-8x7b", "mistral-7b-v0.1"]
    assert nearest("mistal-7b", ["mixtral-8x7b", "mistral-7b-v0.1"]) == ["mixtral-8x7b", "mistral-7b-v0.1"]


@pytest.mark.parametrize("typed", ["llama", "gpt", "zebra", "", "x" * 5000, "---", "\x00", "a/b/"])
@pytest.mark.parametrize("known", [NAMES, [str(i) for i in range(500)], ["silu", "gelu"], []])
def test_no_error_lists_more_than_a_few_names(typed, known):
    assert len(re.findall(r"'[^']*'|(?<=[:,] )[a-z0-9.-]+", did_you_mean(typed, known))) <= 9


def test_names_are_told_once():
    with pytest.raises(HuggingFaceError) as error:
        family("zebra")
    assert str(error.value).count("afmoe") <= 1
    assert len(str(error.value)) < 200


def test_few_names_are_all_known_and_many_are_listed_by_a_command():
    assert did_you_mean("zebra", ["silu", "gelu"]) == " (known: silu, gelu)"
    assert did_you_mean("sillu", ["silu", "gelu"]) == "; did you mean 'silu'? (known: silu, gelu)"
    assert did_you_mean("zebra", NAMES, "`anyformer list`") == f"; `anyformer list` lists the {len(NAMES)}"
    assert did_you_mean("t5", ["t5-a", "t5-b"]).startswith("; did you mean 't5-a' or 't5-b'?")
