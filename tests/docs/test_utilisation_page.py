"""docs/utilisation.md is made of its result, and the result of formulas that say what their sources say."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.formulas.__main__ import CASES, exact, judged
from benchmarks.formulas.projects import FORMULAS
from benchmarks.formulas.sizes import sizes_of

import anyformer as af

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_formulas.py"))
RECORD = MAKER["result"]()


def test_the_page_is_that_of_its_result():
    assert MAKER["pages"](RECORD) == {MAKER["PAGE"]: MAKER["PAGE"].read_text(encoding="utf-8")}, (
        "run: python docs/make_formulas.py"
    )


@pytest.mark.parametrize("title", CASES)
def test_every_formula_says_what_the_result_says(title):
    model_type, about, length = CASES[title]
    (model,) = (each for each in RECORD["models"] if each["model"] == title)
    assert (model["about"], model["length"]) == (about, length)
    sizes = replace(sizes_of(af.architecture(title.split(" at ")[0]), model_type, length), length=length)
    rows = list(judged(title, sizes, model["exact"], model["every"]))
    assert json.loads(json.dumps(rows)) == [row for row in RECORD["rows"] if row["model"] == title]


def test_what_formulas_are_judged_by_is_what_users_are_told():
    assert exact("gpt2", 64) == (af.flops("gpt2", length=64), af.flops("gpt2", length=64, pairs="dense"))


def test_formulas_are_those_of_their_sources_by_hand():
    """GPT-2: L = 12, D = 768, H = 12, V = 50,257, 1,024 positions, 124,439,808 parameters; per token of a row of 1,024."""
    sizes = sizes_of(af.architecture("gpt2"), "gpt2", 1024)
    per_token = {
        each.project: each.flops(sizes) / 1024 for each in FORMULAS if each.takes("gpt2") and each.project != "LLaMA-Factory"
    }
    layer = 12 * 768 * 768
    assert per_token["nanoGPT"] == 6 * (124_439_808 - 1024 * 768) + 12 * 12 * 12 * 64 * 1024
    assert per_token["transformers"] == 6 * (124_439_808 - 1024 * 768 - 50_257 * 768)
    assert per_token["Megatron-LM"] == 6 * (12 * (layer + 768 * 1024) + 768 * 50_257)
    assert per_token["MaxText"] == per_token["Megatron-LM"]
    assert per_token["NeMo"] == 3 * 12 * (24 * 768**2 + 2 * 1024 * 768) + 6 * 768 * 51_200
    assert per_token["Levanter"] == 3 * (12 * (2 * layer + 4 * 1024 * 768 + 3 * 1024 * 12) + 2 * 768 * 50_257)


def test_the_first_snippet_says_what_it_prints(capsys):
    first = re.findall(r"^```python\n(.*?)^```$", MAKER["PAGE"].read_text(encoding="utf-8"), re.S | re.M)[0]
    exec(first, {})
    of_row, share, every = capsys.readouterr().out.split()
    assert (int(of_row), int(every)) == (
        af.flops("llama-3-8b", length=8192),
        af.cost("mixtral-8x7b", length=8192).flops.total.dense,
    )
    assert f"{float(share):.0%}" == "62%"
    assert "of eight together: 62 %" in first
