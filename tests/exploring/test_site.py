"""The static site: whole, the same bytes twice, with everything that its page reads."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.atlas import glossary, topics
from anyformer.cli import app
from anyformer.describe import UserError, to_toml
from anyformer.exploring.site import PAGE, SiteContents, write_site
from anyformer.exploring.site_entries import site_entries
from anyformer.exploring.site_times import NUMBERS

NAMES = ("gpt2", "bert-base-uncased")
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 100, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
}  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A file of ours and a directory of Hugging Face's layout."""
    place = tmp_path_factory.mktemp("own")
    (place / "mine.toml").write_text(to_toml(af.catalogue.architecture("gpt2", tiny=True)))
    (place / "small llama").mkdir()
    (place / "small llama" / "config.json").write_text(json.dumps(CONFIG))
    return place


@pytest.fixture(scope="module")
def entries(own):
    return site_entries([*NAMES, str(own / "mine.toml"), str(own / "small llama")])


@pytest.fixture(scope="module")
def site(tmp_path_factory, entries):
    out = tmp_path_factory.mktemp("place") / "site"
    told: list[int] = []
    written = write_site(out, entries, told.append)
    assert told == [1, 2, 3, 4]
    return out, written


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_site_has_all_that_its_page_reads(site):
    out, written = site
    assert written.entries == 4
    assert written.files == sum(path.is_file() for path in out.rglob("*"))
    assert written.bytes == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert written.compressed < written.bytes / 3
    assert {path.name for path in PAGE.iterdir() if path.suffix in (".js", ".css")} <= {path.name for path in out.iterdir()}
    start = _read(out / "start.json")
    assert start["static"]
    assert {line["name"] for line in start["catalogue"]} == set(NAMES)
    assert start["defaults"]["of"] == "mine"
    assert [(each["of"], each["file"]) for each in start["opened"]] == [
        ("mine", "mine.toml"),
        ("small llama", "small llama.toml"),
    ]
    assert start["opened"][1]["columns"]["parameters"] == af.cost(CONFIG).params.total
    assert {path.stem for path in (out / "topics").iterdir()} == set(topics())
    searched = _read(out / "search.json")
    assert {each["name"] for each in searched["elsewhere"]} == {each.name for each in af.catalogue.listing()} - set(NAMES)
    assert [tuple(each["names"]) for each in searched["glossary"]] == [each.names for each in glossary()]
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
    assert used <= set(range(3 + len(NUMBERS))) | {at for place in sheet["inputs"] for at in place["at"]}


def test_an_own_architecture_has_a_sheet_as_any_entry_and_no_word_of_its_place(site, own):
    out, _ = site
    for name in ("mine", "small llama"):
        text = (out / "sheets" / f"{name}.json").read_text()
        sheet, made = json.loads(text), af.architecture(str(own / ("mine.toml" if name == "mine" else name)))
        assert (sheet["of"], sheet["digest"], sheet["entry"]) == (name, made.digest, None)
        assert sheet["figures"]["parameters"]["total"] == af.cost(made).params.total
        assert sheet["memory"]["memory"]["total"] > 0
        assert _read(out / sheet["program"])["nodes"]
        assert f"{name}.toml" in sheet["forms"]["set"]
        assert str(own) not in text


def test_a_name_that_is_taken_is_refused_with_the_remedy(own):
    for taken, word in (
        ("GPT2.toml", "an entry of the catalogue is called 'gpt2'"),
        ("mine.json", "mine.toml is called 'mine'"),
    ):
        (own / taken).write_text((own / "mine.toml").read_text())
        with pytest.raises(UserError, match=f"{word} too.*another name"):
            site_entries([str(own / "mine.toml"), str(own / taken)])
    (own / "_.toml").write_text((own / "mine.toml").read_text())
    with pytest.raises(UserError, match="'_' cannot be the name of a page: rename it"):
        site_entries([str(own / "_.toml")])


def test_a_file_of_a_usual_name_is_called_after_its_directory_and_an_entry_comes_before_a_directory(own, monkeypatch):
    monkeypatch.chdir(own / "small llama")
    assert site_entries(["config.json"]).names == site_entries(["."]).names == ("small llama",)
    monkeypatch.chdir(own)
    (own / "gpt2").mkdir()
    assert not site_entries(["gpt2", "gpt2"]).own


def test_a_site_is_the_same_in_the_same_bytes(site, entries, tmp_path):
    out, written = site
    assert write_site(tmp_path / "again", entries) == written
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
        (["--out", "new", "gpt2", "gemma-2-2b"], "say --entry gpt2 --entry gemma-2-2b"),
        (["--out", "new", "--entry", "gpt3"], "no architecture is called 'gpt3'"),
        (["--out", "new", "--entry", "absent.toml"], "absent.toml"),
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
