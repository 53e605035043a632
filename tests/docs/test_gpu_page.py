"""docs/gpu.md is made of the cost sheet, the list of waits and results, and its snippet says what it is said to say."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_gpu.py"))
TEXT = MAKER["PAGE"].read_text(encoding="utf-8")


def test_the_page_is_that_of_today():
    assert MAKER["page"]() == TEXT, "run: python docs/make_gpu.py"


def test_what_it_points_to_exists():
    for place in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", TEXT):
        assert (ROOT / "docs" / place).exists(), place


def test_nothing_is_measured_until_a_result_is_committed():
    results = list((ROOT / "benchmarks" / "results").glob("gpu-*.json"))
    assert ("Nothing here was measured on a GPU so far" in TEXT) == (not results)
    assert ("| measured |" in TEXT) == bool(results)


def test_every_wait_has_a_reason_and_its_function_exists():
    for row in tomllib.loads((ROOT / "benchmarks" / "waits.toml").read_text(encoding="utf-8"))["wait"]:
        file, function = row["where"].split()
        assert f"def {function}(" in (ROOT / "src" / "anyformer" / file).read_text(encoding="utf-8"), row["where"]
        assert len(row["reason"].split()) > 5
        assert row["of"]


def test_its_snippet_tells_of_both_mistakes():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["reads aten::_local_scalar_dense", "mixes aten::add.Tensor", "makes aten::arange"]
