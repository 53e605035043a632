"""The commands of docs/hub.md run from top to bottom, its snippet loads what they pushed, and PEFT loads adapters."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import peft
import pytest
import torch
from huggingface_hub import ModelCard
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from hub_server import WRITER
from huggingface.layouts import LAYOUTS, write

PAGE = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")
SMALL = ["steps=3", "batch=2", "length=16", "plan.compile=off", "evaluation.every=2", "evaluation.baseline=false"]
"""What cuts the training of the page to a few tiny steps."""


@pytest.mark.slow
@pytest.mark.usefixtures("asked_by_others")
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


@pytest.mark.slow
@pytest.mark.usefixtures("asked_by_others")
def test_an_adapter_is_pushed_alone_and_loaded_beside_the_model_of_the_hub(hub, tmp_path, monkeypatch):
    write(LAYOUTS["chat with several ends"], tmp_path / "published")
    hub.add("lab/model", tmp_path / "published")
    (tmp_path / "a.txt").write_text("def parse(x):\n    return x\n" * 200)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    sets = [f"--set={text}" for text in [*SMALL, "optimiser.learning_rate=0.1", 'tuning.adapter={kind="lora",rank=2}']]
    for words in (
        ["train", "--start-from", "hub:lab/model", "--data", "a.txt", "--out", "run", *sets],
        ["export", "run", "--adapter", "--base", "hub:lab/model", "--push", "ada/lora", "--yes"],
        ["import", "hub:lab/model", "merged", "--adapter", "hub:ada/lora"],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.output, result.exception)
    sent = hub.repositories["ada/lora"].files
    assert set(sent) == {".gitattributes", "README.md", "adapter_config.json", "adapter_model.safetensors"}
    assert json.loads(sent["adapter_config.json"])["base_model_name_or_path"] == "lab/model"
    card = ModelCard(sent["README.md"].decode())
    assert (card.data.base_model, card.data.library_name) == ("lab/model", "peft")
    assert [name for name, content in sent.items() if str(tmp_path).encode() in content] == []
    theirs = peft.AutoPeftModelForCausalLM.from_pretrained("ada/lora").eval()
    tokens = torch.tensor([[1, 2, 3, 4]])
    trained, merged, base = (af.load(place)[0](tokens) for place in ("run", "merged", "hub:lab/model"))
    assert torch.allclose(theirs(tokens).logits, trained, atol=1e-4)
    assert torch.allclose(merged, trained, atol=1e-4)
    assert not torch.allclose(base, trained, atol=1e-2)
