"""What a directory stores and what loading makes of it, in bytes, on pages and in JSON."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from anyformer import huggingface
from anyformer.cli import app
from huggingface import test_gguf
from huggingface.few_bits import LLAMA, write
from huggingface.test_few_bits_floats import DEEPSEEK, FP8, GPT_OSS, block_fp8, mxfp4, stacked
from huggingface.test_few_bits_integers import GPTQ, gptq

MADE = {
    "fp8": (DEEPSEEK, {**FP8, "weight_block_size": [8, 16]}, block_fp8(8, 16)),
    "mxfp4": (GPT_OSS, {"quant_method": "mxfp4"}, mxfp4, stacked),
    "gptq": (LLAMA, {**GPTQ, "bits": 4, "group_size": 32}, gptq(4, 32, 1, order=True)),
}
WAYS = {"fp8": "fp8 in blocks of 8 x 16", "mxfp4": "mxfp4 in blocks of 32", "gptq": "int4 of GPTQ in groups of 32"}


@pytest.mark.parametrize("name", MADE)
def test_bytes_are_those_of_the_file_and_of_the_model(tmp_path, name):
    made = write(tmp_path, *MADE[name])
    form = huggingface.form_of(made.packed)
    assert form is not None
    assert WAYS[name] in [way.name for way in form.ways]
    assert form.nbytes == sum(tensor.nbytes for tensor in load_file(made.packed / "model.safetensors").values())
    assert form.loaded == sum(parameter.nbytes for parameter in huggingface.load(made.packed)[0].parameters())
    assert huggingface.form_of(made.whole) is None
    assert huggingface.form_of(tmp_path) is None


def test_of_a_gguf_file(tmp_path):
    path = test_gguf.write(tmp_path / "model.gguf", "llama", "Q4_0")
    form = huggingface.form_of(path)
    assert form is not None
    assert form.ways[0].name == "Q4_0 of GGUF"
    assert form.ways[0].nbytes * 32 == form.ways[0].loaded // 2 * 18, "18 bytes hold 32 numbers"
    assert form.loaded == sum(parameter.nbytes for parameter in huggingface.load(path)[0].parameters())
    assert huggingface.form_of(test_gguf.write(tmp_path / "plain.gguf", "llama", "F16")) is None


def test_pages_say_both(tmp_path):
    made = write(tmp_path, *MADE["fp8"])
    form, run = huggingface.form_of(made.packed), CliRunner()
    assert form is not None
    shown = run.invoke(app, ["show", str(made.packed)])
    assert shown.exit_code == 0, shown.output
    assert "most as fp8 in blocks of 8 x 16; loading makes" in " ".join(shown.output.split())
    priced = run.invoke(app, ["cost", str(made.packed), "--length", "16"])
    assert priced.exit_code == 0, priced.output
    assert "Weights as stored" in priced.output
    assert "loaded in float32" in priced.output
    assert "Weights as stored" not in run.invoke(app, ["cost", str(made.whole), "--length", "16"]).output
    data = json.loads(run.invoke(app, ["cost", str(made.packed), "--length", "16", "--json"]).output)
    assert data[0]["stored"]["nbytes"] == form.nbytes
    assert data[0]["stored"]["loaded"] == form.loaded
