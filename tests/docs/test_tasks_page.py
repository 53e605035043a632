"""`docs/tasks.md` says what every task is today, and its run, commands and snippet work from top to bottom."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
SHORT = ["--set", "steps=2", "--set", "plan.compile=off", "--set", "evaluation.final_tokens=64"]


def test_the_page_of_tasks_is_up_to_date():
    maker = runpy.run_path(str(DOCS / "make_tasks.py"))
    assert (DOCS / "tasks.md").read_text(encoding="utf-8") == maker["page"](), "run: python docs/make_tasks.py"


def test_the_run_its_commands_and_the_snippet_work(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((DOCS / "tasks.md").read_text(encoding="utf-8").split("## The tasks")[0])
    for language, text in blocks:
        if language == "toml":
            Path(text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif language == "python":
            exec(compile(text, "docs/tasks.md", "exec"), {})
        else:
            for line in text.splitlines():
                words = shlex.split(line)[1:]
                done = call(*words, *(SHORT if words[0] == "train" else []), cwd=tmp_path)
                assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert [language for language, _ in blocks] == ["toml", "", "python"]
    assert (tmp_path / "pictures" / "mqar-attention.png").is_file()


@pytest.mark.parametrize("key", ["task", "shortest", "longest", "held_out", "test"])
def test_the_keys_of_the_data_are_told(key):
    assert f"`{key}`" in (DOCS / "tasks.md").read_text(encoding="utf-8").split("## Probing")[0]
