"""docs/compare.md is what the descriptions and the committed study say, its file is a study, and it is listed."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from anyformer.describe import to_toml
from anyformer.studies import Study, load_study, resolve_arms

ROOT = Path(__file__).parents[2]
NORMS = ROOT / "docs" / "studies" / "norms"
TEXT = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")


def test_the_page_is_that_of_today():
    maker = runpy.run_path(str(ROOT / "docs" / "make_compare.py"))
    for path, text in maker["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_compare.py"
    keys = maker["KEYS"].read_text(encoding="utf-8")
    assert not re.findall(r"^\| `\w+` .*\|  \|$", keys, re.M), "keys without a docstring"
    for name in Study.model_fields:
        assert f"| `{name}` |" in keys


def test_what_the_page_points_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT):
        assert (ROOT / "docs" / target).exists(), target
    assert "(docs/compare.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_file_of_the_page_is_a_study(tmp_path):
    (text,) = re.findall(r"```toml\n# heads\.toml\n(.*?)```", TEXT, re.S)
    base = load_study(ROOT / "recipes" / "studies" / "norms.toml").base
    (tmp_path / "run.toml").write_text(to_toml(base.but(architecture=base.architecture)))
    (tmp_path / "heads.toml").write_text(text)
    arms = resolve_arms(load_study(tmp_path / "heads.toml", {"match": None}))
    assert [arm.name for arm in arms] == ["base", "one_key_head", "gemma"]


def test_the_committed_study_is_that_of_its_recipe():
    stored = json.loads((NORMS / "report.json").read_text(encoding="utf-8"))
    assert Study.parse(stored["study"]) == load_study(ROOT / "recipes" / "studies" / "norms.toml")
