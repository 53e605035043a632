"""The atlas as plain values: numbers point to what they are to point to, and every column is there to filter by."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from anyformer.atlas import atlas_data
from anyformer.atlas.data import NUMBERS, WORDS
from anyformer.atlas.keeping import kept
from anyformer.atlas.topic import mechanisms, topics
from anyformer.atlas.tree import tree
from anyformer.catalogue import listing
from anyformer.cli import app


@pytest.fixture(scope="module")
def data() -> dict:
    return json.loads(json.dumps(atlas_data()))


def test_every_column_of_the_table_can_be_filtered_by(data):
    columns = set(asdict(listing()[0].columns)) | {"year", "training"}
    assert set(WORDS) | set(NUMBERS) == columns
    for entry, listed in zip(data["entries"], listing(), strict=True):
        assert set(entry["words"]) == set(WORDS)
        assert set(entry["numbers"]) == set(NUMBERS)
        assert entry["name"] == listed.name
        assert entry["numbers"]["parameters"] == listed.columns.parameters
        assert "+".join(entry["words"]["attention"]) == listed.columns.attention


def test_numbers_point_to_what_the_tree_says(data):
    for made, each in zip(data["designs"], tree(), strict=True):
        assert [data["entries"][number]["name"] for number in made["entries"]] == [entry.name for entry in each.design.entries]
        parent = None if made["parent"] is None else data["designs"][made["parent"]]
        assert (parent and data["entries"][parent["entries"][0]]["name"]) == (each.parent and each.parent.name)
        assert [mechanisms()[number] for number in made["lost"]] == list(each.lost)
        assert [mechanisms()[number] for number, _ in made["gained"]] == [own.mechanism for own in each.gained]
    for entry in data["entries"]:
        assert data["families"][entry["family"]][1] == entry["organisation"]


def test_mechanisms_say_how_many_have_them(data):
    for number, each in enumerate(data["mechanisms"]):
        having = [entry for entry in data["entries"] if number in entry["mechanisms"]]
        assert len(having) == each["entries"]
        assert len({entry["family"] for entry in having}) == each["families"]
        assert min(entry["numbers"]["year"] for entry in having) == each["since"]


def test_what_was_worked_out_is_kept_for_the_next_process(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    assert kept("made up", lambda: {"years": (2017, 2018)}) == {"years": [2017, 2018]}
    assert kept("made up", lambda: pytest.fail("worked out again")) == {"years": [2017, 2018]}
    assert kept("another", dict) == {}
    for path in tmp_path.rglob("atlas/*"):
        path.write_text("damaged")
    assert kept("made up", lambda: {"years": []}) == {"years": []}


def test_the_command_prints_topics_trends_and_firsts():
    told = CliRunner().invoke(app, ["atlas"], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    for name in topics():
        assert f"  {name}: " in told.output
    assert "47/51" in next(line for line in told.output.splitlines() if line.startswith("RMSNorm"))


def test_the_command_prints_a_page_with_its_sources():
    told = CliRunner().invoke(app, ["atlas", "positions"], env={"COLUMNS": "400"})
    assert told.exit_code == 0, told.output
    assert "docs/studies/positions/report.md" in told.output
    assert "https://arxiv.org/abs/2104.09864" in told.output
    assert "docs/reference/claims.md" in told.output
