"""Descriptions of version 1, in which attention had a field for each option, are read; those of a later one are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from anyformer.catalogue import architecture
from anyformer.describe import VERSION, DescriptionError, from_json, from_toml, to_json, to_toml
from anyformer.describe.versions import upgraded
from anyformer.model import Architecture
from anyformer.parts.attention.moved import KINDS, MOVED
from anyformer.parts.sublayer import Sublayer

TABLES = json.loads((Path(__file__).parent / "version_1.json").read_text(encoding="utf-8"))
"""Attentions as version 1 wrote them, beside what they are now."""


def sublayer(table):
    return TypeAdapter(Sublayer).validate_python(upgraded(table))


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_an_attention_of_before_is_the_one_in_slots(number):
    before, now = TABLES[number]["before"], TABLES[number]["now"]
    assert sublayer(before) == sublayer(now)
    assert sublayer(now).plain() == now


def test_every_field_that_moved_is_read():
    told = {name for table in TABLES for name in table["before"]}
    assert set(MOVED) <= told
    assert {table["before"]["kind"] for table in TABLES} == set(KINDS)


@pytest.mark.parametrize(("write", "read"), [(to_toml, from_toml), (to_json, from_json)])
def test_a_file_says_its_version(write, read):
    model = architecture("llama-3-8b")
    text = write(model)
    assert f"{VERSION}" in text.splitlines()[0 if write is to_toml else 1]
    assert "version" in text.splitlines()[0 if write is to_toml else 1]
    assert read(Architecture, text) == model


@pytest.mark.parametrize(("version", "said"), [(VERSION + 1, "written by a later anyformer"), ("2", "whole number above 0")])
def test_a_version_that_is_not_known_is_refused(version, said):
    with pytest.raises(DescriptionError, match=said):
        Architecture.parse({"version": version, **architecture("gpt2").plain()})
