"""`docs/sparse.md` has the table of its committed result, and its Python runs, with tiny models in the place of those that its
commands train."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from anyformer import build, checkpoint
from anyformer.catalogue.llama import llama
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.model import dictionary_alone
from anyformer.parts import Dictionary, MeanLength, TopKCode

PAGE = Path(__file__).parents[2] / "docs" / "sparse.md"


def test_the_table_is_that_of_its_result(monkeypatch):
    monkeypatch.syspath_prepend(PAGE.parent)  # whose page_text it imports
    maker = runpy.run_path(str(PAGE.parent / "make_sparse.py"))
    record = json.loads(maker["RESULT"].read_text(encoding="utf-8"))
    assert maker["pages"](record) == {PAGE: PAGE.read_text(encoding="utf-8")}, "run: python docs/make_sparse.py"
    assert all(len(record["results"][name]["seeds"]) >= 3 for name in ("relu", "top_k", "batch_top_k", "jump_relu"))


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    tokenizer = make_tokenizer(Bytes(), tuple, tuple)
    dictionary = Dictionary(features=24, code=TopKCode(k=4), unit=True, length=MeanLength())
    teacher = llama(width=16, depth=4, heads=2, kv_heads=1, ffn=24, vocab=tokenizer.vocab_size, tied=True)
    checkpoint.save(build(teacher, seed=1).eval(), tmp_path / "runs" / "teacher", tokenizer=tokenizer)
    checkpoint.save(build(dictionary_alone(dictionary, 16), seed=2).eval(), tmp_path / "runs" / "sae")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M):
        exec(compile(block, PAGE.name, "exec"), names)
    tokens, changed = capsys.readouterr().out.splitlines()[:2]
    assert len(re.findall(r"'[^']*'|\"[^\"]*\"", tokens)) == 8
    assert float(re.findall(r"[\d.]+", changed)[0]) > 0, "the model computes otherwise without the feature"
