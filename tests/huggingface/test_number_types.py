"""An export holds its weights in the type in which they came, whatever they were trained in, or in the one asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from typer.testing import CliRunner

from anyformer import huggingface
from anyformer.cli import app
from anyformer.huggingface.number_types import came_in
from anyformer.text.beside import Beside
from huggingface.layouts import LAYOUTS, write

TEXT = "the way that can be told is not the constant way; " * 40


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A chat model in bf16 with its tokenizer."""
    place = tmp_path_factory.mktemp("types") / "base"
    write(LAYOUTS["chat with several ends"], place)
    model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.bfloat16)
    model.save_pretrained(place)
    return place


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("adapter", ["", '{kind = "lora", rank = 2}'])
def test_a_model_in_bf16_is_as_large_after_training(base, adapter, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    more = ["--set", f"tuning.adapter={adapter}"] if adapter else []
    run(
        "train", "--start-from", base, "--data", tmp_path / "text.txt", "--out", tmp_path / "run", "--set", "steps=2",
        "--set", "batch=2", "--set", "length=16", *more,
    )  # fmt: skip
    run("export", tmp_path / "run", tmp_path / "out")
    before, after = load_file(base / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    assert {name: x.dtype for name, x in after.items()} == {name: x.dtype for name, x in before.items()}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert any(not torch.equal(after[name], before[name]) for name in before), "it was trained"
    run("export", tmp_path / "run", tmp_path / "wide", "--dtype", "fp32")
    wide = load_file(tmp_path / "wide" / "model.safetensors")
    assert {x.dtype for x in wide.values()} == {torch.float32}
    assert all(torch.equal(wide[name].to(torch.bfloat16), after[name]) for name in after)
    assert json.loads((tmp_path / "wide" / "config.json").read_text())["dtype"] == "float32"


def test_numbers_that_fp16_cannot_hold_are_refused(base, tmp_path):
    model, _ = huggingface.load(base)
    with torch.no_grad():
        model.head.weight[0, 0] = 1e6
    with pytest.raises(huggingface.HuggingFaceError, match=r"numbers up to 9.99e\+05, and fp16 ends at 65504"):
        huggingface.export(model, tmp_path / "out", dtype=torch.float16)


def test_without_a_word_a_model_keeps_its_own_type(base, tmp_path):
    model, _ = huggingface.load(base)
    huggingface.export(model.to(torch.float32), tmp_path / "out")
    assert {x.dtype for x in load_file(tmp_path / "out" / "model.safetensors").values()} == {torch.float32}
    assert came_in(Beside.read(base)) == torch.bfloat16
    assert came_in(Beside()) is None
