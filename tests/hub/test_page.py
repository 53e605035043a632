"""The commands of docs/hub.md run from top to bottom, and its snippet loads what they pushed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anyformer.cli import app
from hub_server import WRITER
from huggingface.layouts import LAYOUTS, write

PAGE = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")
SMALL = ["steps=3", "batch=2", "length=16", "plan.compile=off", "evaluation.every=2", "evaluation.baseline=false"]
"""What cuts the training of the page to a few tiny steps."""


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(hub, tmp_path, monkeypatch, capsys):
    write(LAYOUTS["chat with several ends"], tmp_path / "published")
    hub.add("lab/model", tmp_path / "published")
    shutil.rmtree(tmp_path / "published")
    (tmp_path / "my_texts").mkdir()
    (tmp_path / "my_texts" / "a.txt").write_text("def parse(x):\n    return x\n" * 200)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    commands = re.findall(r"^anyformer (.*)$", PAGE, re.M)
    assert len(commands) == 7
    for line in commands:
        words = shlex.split(line) + [f"--set={text}" for text in SMALL] * line.startswith("train")
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (line, result.output, result.exception)
        assert result.output.strip(), line
        if "--dry-run" in words:
            assert "ada/fine" not in hub.repositories
    card = hub.repositories["ada/fine"].files["README.md"].decode()
    assert "base_model: lab/model\n" in card
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
    exec(snippet, {})
    assert "def parse(" in capsys.readouterr().out
