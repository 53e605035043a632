"""`docs/policies.md` has the tables of today's recipes and of its committed result, and its Python runs."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_tables_are_those_of_the_values_and_the_result(monkeypatch):
    monkeypatch.syspath_prepend(PAGE.parent)  # whose page_text it imports
    maker = runpy.run_path(str(PAGE.parent / "make_policies.py"))
    record = json.loads(maker["RESULT"].read_text(encoding="utf-8"))
    assert maker["pages"](record) == {PAGE: PAGE.read_text(encoding="utf-8")}, "run: python docs/make_policies.py"
    assert len(record["losses"]) >= 12
    assert all(max(one["apart"], one["gradient apart"]) < 1e-5 for one in record["losses"].values())


def test_the_python_of_the_page_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(compile(block, PAGE.name, "exec"), names)
    mean = names["mean"]
    assert isinstance(mean, torch.Tensor)
    (gradient,) = torch.autograd.grad(mean, names["log_p"])
    assert gradient.abs().max() > 0
