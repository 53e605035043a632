"""The pages of engines are made of their results, and no committed row differs."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from benchmarks.engines import row
from benchmarks.engines.__main__ import ENGINES, MODULES
from benchmarks.engines.row import Row, Table
from benchmarks.engines.scratch import Scratch

MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_engines.py"))
RECORDS = {record["engine"]: record for record in MAKER["records"]()}
LLAMA = Row("llama", "native class", "f32", "1.0", ("alone",), 12, 12, 1e-6)


def test_the_pages_are_those_of_their_results() -> None:
    for path, text in MAKER["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_engines.py"


def test_every_engine_that_can_be_asked_has_a_name_on_the_page() -> None:
    assert set(ENGINES) <= set(MODULES) == set(MAKER["NAMES"])
    assert RECORDS
    assert set(RECORDS) <= set(ENGINES)


@pytest.mark.parametrize("engine", RECORDS)
def test_nothing_differs_but_what_the_table_says(engine) -> None:
    rows = row.rows_of(RECORDS[engine]["rows"])
    assert len({each.key for each in rows}) == len(rows)
    for each in rows:
        assert each.processor
        assert each.version
        assert each.reason or each.same(RECORDS[engine]["close"]) != bool(each.departs), each.told(RECORDS[engine]["close"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"equal": 11}, "DIFFERENT: 11 of 12"),
        ({"difference": 2e-4}, "DIFFERENT: 12 of 12 tokens, log-probabilities within 2.0e-04"),
        ({"tokens": 0, "equal": 0, "difference": None, "reason": "no such class"}, "not compared: no such class"),
    ],
)
def test_a_difference_is_seen(changed, words) -> None:
    assert LLAMA.same(1e-4)
    other = Row(**{**vars(LLAMA), **changed})
    assert not other.same(1e-4)
    assert words in other.told(1e-4)


@pytest.mark.parametrize("changed", [{"reason": "why not"}, {"tokens": 0}])
def test_a_row_has_tokens_or_a_reason(changed) -> None:
    with pytest.raises(ValueError, match="tokens that were compared or a reason"):
        Row(**{**vars(LLAMA), **changed})


def test_a_new_row_takes_the_place_of_the_old_one_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(row, "FOLDER", tmp_path)
    gpt2 = Row(**{**vars(LLAMA), "name": "gpt2"})
    table = Table("vllm", 1e-4, {}, {}).but(LLAMA, {"torch": "1"}).but(gpt2, {"torch": "2"})
    table.write(("gpt2", "llama"))
    table.but(Row(**{**vars(LLAMA), "equal": 3}), {}).write(("gpt2", "llama"))
    kept = row.read("vllm", 1e-4)
    assert [(each.name, each.equal) for each in kept.rows.values()] == [("gpt2", 12), ("llama", 3)]
    assert json.loads((tmp_path / "vllm.json").read_text())["versions"] == {"torch": "2"}
    assert all(each.processor for each in kept.rows.values())


def test_an_engine_answers_in_lines_from_its_own_interpreter(tmp_path) -> None:
    script = tmp_path / "json_reader.py"
    script.write_text("import json, sys\nprint('talk')\nprint(json.dumps({'asked': json.load(open(sys.argv[1]))}))\n")
    scratch = Scratch(Path("python3"), tmp_path / "place", ("llama",))
    assert list(scratch.answers(script, ["a"])) == [{"asked": ["a"]}]
    script.write_text("raise SystemExit('no memory')\n")
    with pytest.raises(SystemExit, match="no memory"):
        list(scratch.answers(script, []))
    with pytest.raises(SystemExit, match="lacks one of there-is-none"):
        scratch.versions("there-is-none")
