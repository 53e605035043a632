"""A description needs no torch: without it every architecture is made, priced, compared, matched and drawn."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from torch import nn
from typer.testing import CliRunner

import anyformer as af
from anyformer import catalogue
from anyformer.cli import app
from anyformer.costs import cost
from anyformer.costs.traceable import NEEDS_TORCH
from anyformer.huggingface.find import find_family
from anyformer.parts.layers.step import TAKEN

COMMANDS = (
    "help",
    "help costs",
    "help RMSNorm",
    "help GQA",
    "list llama",
    "show gpt2",
    "show vit-base-16 --set head.outputs=10",
    "show gpt2 --set decoder.layer.attention.kv_heads=4 --toml",
    "show deepseek-v3 --tiny --json",
    "diff llama-3-8b qwen3-8b",
    "diff llama-3-8b qwen3-8b --steps",
    "match llama-3-8b --params 1.3B",
    "plan llama-3-8b --serve --length 8k",
    "cost llama-3-8b --mode decode",
    "cost mixtral-8x7b --mode prefill",
    "explore gemma-2-2b --json",
    "cost gpt2 --explain attention --mode decode",
)
"""Questions whose answers are the same with torch and without."""
LENGTH = 32
SAME = ("gpt2", "deepseek-v3", "gemma-3n-e2b", "rwkv-7-world-0.1b", "zamba2-2.7b", "whisper-tiny")
"""Architectures that are priced again beside torch."""
CONFIGURED = {
    "llama-3-8b": "llama", "gemma-3-4b": "gemma3_text", "deepseek-v3": "deepseek_v3", "mixtral-8x7b": "mixtral",
    "nemotron-h-8b": "nemotron_h", "qwen3-next-80b-a3b": "qwen3_next", "t5-small": "t5", "bert-base-uncased": "bert",
    "recurrentgemma-9b": "recurrent_gemma", "xlnet-base": "xlnet",
}  # fmt: skip
"""Architecture -> the type of the configuration of Hugging Face from which it is read."""
ALONE = """
import json, sys
sys.modules["torch"] = None  # importing it raises, as where it is not installed
from typer.testing import CliRunner
import anyformer as af
from anyformer import architecture, catalogue, cost
from anyformer.cli import COMMANDS, app

def priced(name):
    sheet = cost(architecture(name), length={length}, mode="prefill")
    return [sheet.params.total, sheet.params.active, sheet.flops.total.exact, sheet.executed.total, sheet.state_bytes]

def said(words):
    result = CliRunner().invoke(app, words.split(), env={{"COLUMNS": "100"}})
    return [result.exit_code, result.output or str(result.exception)]

def of_config(config):
    return [af.flops(config, length={length}), af.mfu(config, 1000.0, length={length})]

answers = {{
    "configured": {{name: of_config(config) for name, config in json.load(open("{place}/configs.json")).items()}},
    "priced": {{entry.name: priced(entry.name) for entry in catalogue.listing()}},
    "said": {{words: said(words) for words in {commands}}},
    "helped": {{verb: said(f"{{verb}} --help") for verb in COMMANDS}},
    "training": said("cost gpt2"),
    "trained": said("cost gpt2 --explain"),
    "shown": said("show gpt2 --diagram {place}/gpt2.svg"),
    "planned": said("plan gpt2 --gpus 8"),
}}
print(json.dumps(answers))
"""


def configurations():
    """(name, configuration as transformers' files have it) of architectures."""
    for name, model_type in CONFIGURED.items():
        yield name, {"model_type": model_type, **find_family(catalogue.architecture(name), model_type)[1]}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What a process without torch answers."""
    place = tmp_path_factory.mktemp("alone")
    (place / "configs.json").write_text(json.dumps(dict(configurations())))
    program = ALONE.format(length=LENGTH, commands=COMMANDS, place=place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYFORMER_CACHE", str(place / "cache"))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (place / "gpt2.svg").is_file()
    return json.loads(done.stdout)


def test_every_architecture_is_priced_without_torch_as_with_it(alone):
    assert alone["priced"].keys() == {entry.name for entry in catalogue.listing()}
    for name in SAME:
        sheet = cost(catalogue.architecture(name), length=LENGTH, mode="prefill")
        parameters = [sheet.params.total, sheet.params.active]
        assert alone["priced"][name] == [*parameters, sheet.flops.total.exact, sheet.executed.total, sheet.state_bytes]


def test_configurations_of_hugging_face_are_priced_without_torch_as_with_it(alone):
    assert alone["configured"].keys() == set(CONFIGURED)
    for name, config in configurations():
        assert alone["configured"][name] == [af.flops(config, length=LENGTH), af.mfu(config, 1000.0, length=LENGTH)], name


def test_commands_answer_without_torch_as_with_it(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    for words, (code, output) in alone["said"].items():
        result = CliRunner().invoke(app, words.split(), env={"COLUMNS": "100"})
        assert code == result.exit_code == 0, output
        assert output.splitlines() == result.output.splitlines(), words


def test_the_help_of_every_command_needs_no_torch(alone):
    """A command imports what is heavy when it runs."""
    for verb, (code, output) in alone["helped"].items():
        assert code == 0, f"{verb}: {output}"


def test_what_needs_torch_is_named_in_one_line(alone):
    """Tables of inference and times are there; the memory of training, which is read off the built model, is not."""
    code, output = alone["training"]
    assert code == 0
    assert f"gpt2: {NEEDS_TORCH}" in output.splitlines()
    assert "Memory of inference" in output
    assert "Memory of training" not in output
    assert alone["trained"][0] == 0
    assert "FLOPs of a training step" in alone["trained"][1]
    assert alone["planned"][0] != 0
    assert NEEDS_TORCH in alone["planned"][1]
    assert alone["shown"][0] == 0


def test_names_that_a_branch_cannot_have_are_those_of_modules():
    torchs = {name for name, each in vars(nn.Module).items() if getattr(each, "__module__", "torch").startswith("torch")}
    assert {name for name in torchs if name[0] != "_"} <= TAKEN, "names that transformers adds are not torch's own"
