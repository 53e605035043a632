"""docs/extend.md tells the truth: its blocks are one plug-in, which is used as its commands say, from top to bottom."""

from __future__ import annotations

import re
import shlex
import tomllib

from tests.testing.unloading import BLOCK, PAGE, forgetting, page_code

from anyformer.describe.plugins import FAMILIES, PARTS

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_runs(tmp_path, call):
    (tmp_path / "my_parts.py").write_text(page_code())
    lines = []
    for language, text in BLOCK.findall(TEXT):
        if named := re.match(r"# (\S+\.toml)\n", text):
            (tmp_path / named[1]).write_text(text)
        if language == "sh":
            lines += text.splitlines()
    assert len(lines) > 6
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "anyformer"
        if words[0] == "check":
            words += ["--only", "survives text"]  # all of it: tests/testing/test_check.py
        with forgetting():
            said = call(*words, cwd=tmp_path)
        assert said.returncode == 0, f"{line}\n{said.stdout}{said.stderr}"
    assert (tmp_path / "runs/alternating/run.toml").read_text().startswith("version = 2\nplugins = [")
    assert "steps = 30" in (tmp_path / "runs/alternating/run.toml").read_text()


def test_its_entry_points_are_those_that_are_read():
    (table,) = [text for language, text in BLOCK.findall(TEXT) if text.startswith("[project.entry-points")]
    assert tomllib.loads(table)["project"]["entry-points"].keys() == {PARTS, FAMILIES}


def test_one_of_each_is_a_page():
    for heading in ("A mixer", "An objective", "An optimiser", "A task", "A family"):
        section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        assert len(section.splitlines()) < 110, heading
