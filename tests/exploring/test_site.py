"""The static site: whole, the same bytes twice, with everything that its page reads."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.atlas import topics
from anyformer.cli import app
from anyformer.exploring.site import PAGE, SiteContents, write_site

NAMES = ("gpt2", "bert-base-uncased")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("place") / "site"
    told: list[int] = []
    written = write_site(out, NAMES, told.append)
    assert told == [1, 2]
    return out, written


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_site_has_all_that_its_page_reads(site):
    out, written = site
    assert written.entries == 2
    assert written.files == sum(path.is_file() for path in out.rglob("*"))
    assert written.bytes == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert written.compressed < written.bytes / 3
    assert {path.name for path in PAGE.iterdir() if path.suffix in (".js", ".css")} <= {path.name for path in out.iterdir()}
    start = _read(out / "start.json")
    assert start["static"]
    assert {line["name"] for line in start["catalogue"]} == set(NAMES)
    assert start["defaults"]["of"] in NAMES
    assert {path.stem for path in (out / "topics").iterdir()} == set(topics())
    assert re.search(r'<html [^>]*data-static=""', (out / "index.html").read_text())
    assert not re.search(r"data-static", (PAGE / "index.html").read_text())


def test_a_sheet_is_that_of_the_server_with_its_memory_and_its_program(site):
    out, _ = site
    sheet, classes = _read(out / "sheets" / "gpt2.json"), _read(out / "classes.json")
    made = af.architecture("gpt2")
    assert sheet["digest"] == made.digest
    assert sheet["figures"]["parameters"]["total"] == af.cost(made).params.total
    assert sheet["memory"]["memory"]["total"] == af.cost(made, length=sheet["call"]["length"]).memory.total
    assert {part["class"] for part in sheet["parts"]} <= classes.keys()
    program = _read(out / sheet["program"])
    used = {node[1] for node in program["nodes"] if node[0] == "take"}
    assert used <= {0, 1, 2} | {at for place in sheet["inputs"] for at in place["at"]}


def test_a_site_is_the_same_in_the_same_bytes(site, tmp_path):
    out, written = site
    assert write_site(tmp_path / "again", NAMES) == written
    for path in out.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.relative_to(out)).read_bytes(), path.name


def test_the_command_says_what_it_wrote(tmp_path):
    asked = CliRunner().invoke(app, ["atlas", "--out", str(tmp_path / "site"), "--entry", "mamba-130m", "--json"])
    assert asked.exit_code == 0, asked.output
    assert SiteContents(**json.loads(asked.output)).entries == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--entry", "gpt2"], "give --out DIRECTORY too"),
        (["positions", "--out", "new"], "leave 'positions' out"),
        (["--out", "new", "--entry", "gpt3"], "no architecture is called 'gpt3'"),
        (["--out", "."], "exists; give the name of a new directory"),
    ],
)
def test_what_is_refused_writes_nothing(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").touch()
    refused = CliRunner().invoke(app, ["atlas", *words])
    assert refused.exit_code
    assert said in f"{refused.output}{refused.exception}"
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
