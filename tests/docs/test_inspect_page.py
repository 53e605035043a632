"""`docs/circuits.md` has the tables of its committed results, whose verdicts are those of the criteria."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from benchmarks.circuit_criteria import CRITERIA

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "inspect.md"
TABLES = ROOT / "docs" / "circuits.md"


def test_the_tables_are_those_of_the_result():
    maker = runpy.run_path(str(ROOT / "docs" / "make_circuits.py"))
    assert TABLES.read_text(encoding="utf-8") == maker["page"](), "run: python docs/make_circuits.py"


def test_verdicts_are_those_of_the_criteria():
    rows = json.loads((ROOT / "benchmarks" / "results" / "circuits.json").read_text(encoding="utf-8"))["results"]
    assert {row["name"] for row in rows} == set(CRITERIA)
    for row in rows:
        assert row["criteria"] == {words: holds(row) for words, holds in CRITERIA[row["name"]].items()}
        assert row["found"] == all(row["criteria"].values())


def test_every_function_that_the_page_names_is_there():
    from anyformer import inspecting

    table = PAGE.read_text(encoding="utf-8").split("| function |")[1].split("\n\n")[0]
    named = {name for cell in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", cell)}
    assert named == {
        "logit_lens", "tuned_lens", "attribution", "activation_patching", "attribution_patching", "ablation", "steering_vector",
        "attention_patterns", "head_patterns", "find_circuit", "score_edges", "FeatureDictionary",
    }  # fmt: skip
    assert named <= set(inspecting.__all__)
