"""A plug-in is used like the package's own parts; without it every command says which one is missing, before any work."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
import torch
from tests.testing.unloading import forgetting, page_code

import anyformer
from anyformer import huggingface
from anyformer.describe import DescriptionError, Notice, PluginError, UserError, from_toml, to_toml
from anyformer.huggingface import Config, Family, HuggingFaceError
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.parts import Attention
from anyformer.parts.sublayer import Sublayer
from anyformer.testing.around import decoder_of
from anyformer.training.journal import read_metrics
from forking import forked

RUN = """
steps = 3
batch = 4
length = 12
architecture = "llama-12m"
objective = { kind = "late" }
data = { kind = "text", paths = ["words.txt"], tokenizer = { kind = "bytes" }, validation = 0.2 }

[set]
"architecture.width" = 16
"architecture.embedding.vocab" = 258
"architecture.decoder.order" = "layer*2"
"architecture.decoder.layer.attention.sublayer" = { kind = "decayed_sum", features = 8 }
"architecture.decoder.layer.feedforward.width" = 16
"plan.compile" = "off"
"evaluation.baseline" = false
"""
PART = '''
from typing import Literal

import torch
from torch import nn

from anyformer.operations import matrix
from anyformer.parts import Attention
from anyformer.parts.sublayer import Sublayer


class Plain(Sublayer):
    """y = x W."""

    kind: Literal["plain_matrix"] = "plain_matrix"

    def build(self, width, plan, name):
        return Module(width)

    def cost(self, width, shape, plan):
        return matrix("weight", width, width, shape.rows, role="replicate")


class Module(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Linear(width, width, bias=False)

    def forward(self, x, context, state=None):
        return self.weight(x)
'''
KNOWN = to_toml(decoder_of(Attention(heads=4)))
PLUGIN = ("--plugin", "my_parts.py")


@pytest.fixture(scope="module")
def place(tmp_path_factory, call):
    """A plug-in, and what was made with it: a run, its export, and a directory of its family."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "my_parts.py").write_text(page_code())
    (folder / "run.toml").write_text(RUN)
    (folder / "words.txt").write_text("to be or not to be, that is the question. " * 200)
    with forgetting():
        for words in (["train", "run.toml", "--out", "runs/one"], ["export", "runs/one", "own"]):
            made = call(*words, *PLUGIN, cwd=folder)
            assert made.returncode == 0, made.stderr
        module = anyformer.load_plugin(folder / "my_parts.py")
        architecture, _ = huggingface.read_architecture(Config(module.CHECKS.configurations[0]))
        huggingface.export(build(architecture), folder / "theirs", model_type="decayed")
    return folder


@pytest.fixture(autouse=True)
def _forgetting():
    with forgetting():
        yield


LEAVES = {
    "show": ["show", "own"], "show a run": ["show", "runs/one"], "show a file": ["show", "run.toml"], "cost": ["cost", "own"],
    "train": ["train", "run.toml", "--out", "new"], "train what is exported": ["train", "own", "--data", "words.txt"],
    "resume": ["train", "--resume", "runs/one", "--set", "steps=4"], "generate": ["generate", "runs/one", "to be"],
    "export": ["export", "runs/one", "new"], "import": ["import", "theirs", "new"], "import own": ["import", "own", "new"],
    "start from": ["train", "--start-from", "runs/one", "--data", "words.txt", "--out", "new"],
}  # fmt: skip


@pytest.mark.parametrize("words", LEAVES.values(), ids=LEAVES)
def test_without_the_plugin_the_error_names_it_before_any_work(words, place, call):
    if words == ["show", "run.toml"]:
        (place / "noted.toml").write_text('plugins = ["my_parts.py"]\n' + RUN)
        words = ["show", "noted.toml"]
    said = call(*words, cwd=place)
    assert said.returncode == 2
    assert "Traceback" not in said.stderr
    if words != ["train", "run.toml", "--out", "new"]:  # a file that names no plug-in
        assert "without the plug-in my_parts.py" in said.stderr
        assert "--plugin my_parts.py" in said.stderr
    assert "--plugin" in said.stderr
    assert not (place / "new").exists()


def test_with_the_plugin_all_of_them_work(place, call, tmp_path):
    shutil.copytree(place / "runs/one", tmp_path / "one")
    for words in (
        ["show", "own", "--diagram", str(tmp_path / "own.svg")],
        ["cost", "runs/one"],
        ["generate", "runs/one", "to be", "--max-tokens", "3"],
        ["import", "theirs", str(tmp_path / "imported")],
        ["export", str(tmp_path / "imported"), str(tmp_path / "exported")],
        ["show", "gpt2", "--schema"],
        ["import", "own", str(tmp_path / "own")],
        ["train", "--resume", str(tmp_path / "one"), "--set", "steps=4"],
    ):
        with forgetting():
            said = call(*words, *PLUGIN, cwd=place)
        assert said.returncode == 0, said.stderr
        if "--schema" in words:
            assert '"DecayedSum": {' in said.stdout
    assert (tmp_path / "own.svg").stat().st_size > 1000
    assert json.loads((tmp_path / "exported/config.json").read_text())["model_type"] == "decayed"


def test_what_is_written_names_the_plugin(place):
    assert (place / "runs/one/run.toml").read_text().startswith('version = 2\nplugins = [\n    "my_parts.py",\n]\n')
    (newest,) = (place / "runs/one/checkpoints").glob("step-*3")
    assert json.loads((newest / "architecture.json").read_text())["plugins"] == ["my_parts.py"]
    assert json.loads((place / "own/config.json").read_text())["architecture"]["plugins"] == ["my_parts.py"]
    assert json.loads((place / "theirs/config.json").read_text())["anyformer_plugins"] == ["my_parts.py"]
    assert "plugins" not in to_toml(decoder_of(Attention(heads=4)))


def test_a_python_program_loads_it(place):
    with pytest.raises(DescriptionError, match=r"in Python: load_plugin"):
        anyformer.load(place / "runs/one")
    anyformer.load_plugin(place / "my_parts.py")
    model, _ = anyformer.load(place / "runs/one")
    again, _ = anyformer.load(place / "own")
    x = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(model(x), again(x))


def test_transformers_loads_an_export_of_it(place):
    auto = importlib.import_module("anyformer.huggingface.auto")
    with pytest.raises(DescriptionError, match=r"without the plug-in my_parts\.py"):
        auto.AnyformerForCausalLM.from_pretrained(place / "own")
    anyformer.load_plugin(place / "my_parts.py")
    assert auto.AnyformerForCausalLM.from_pretrained(place / "own")(torch.arange(5)[None]).logits.shape == (1, 5, 258)


def test_another_process_has_it_by_the_environment(place):
    words = [sys.executable, "-m", "anyformer", "show", "own", "--toml"]
    environment = {**os.environ, "ANYFORMER_PLUGINS": "my_parts.py"}  # beside where the process starts
    said = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("version = 2\nplugins = [")


def test_a_file_that_is_read_is_no_reason_to_run_code(tmp_path, call):
    (tmp_path / "wicked.py").write_text("open('ran', 'w').close()\n" + PART)
    (tmp_path / "it.toml").write_text(f'plugins = ["wicked.py"]\n{described("plain_matrix")}')
    said = call("show", "it.toml", cwd=tmp_path)
    assert (said.returncode, "wicked.py" in said.stderr) == (2, True)
    (tmp_path / "known.toml").write_text(f'plugins = ["wicked.py"]\n{KNOWN}')
    assert call("show", "known.toml", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("wrong", ['"my_parts.py"', "[3]", '["a.py; rm"]', '[["a.py"]]'])
def test_names_of_plugins_are_names(wrong, tmp_path, call):
    (tmp_path / "it.toml").write_text(f"plugins = {wrong}\n{KNOWN}")
    said = call("show", "it.toml", cwd=tmp_path)
    assert (said.returncode, "should be a list of names" in said.stderr) == (2, True)


def test_it_is_loaded_only_where_something_is_not_known(tmp_path, call):
    (tmp_path / "broken.py").write_text("import torch\n\nnonsense\n")
    assert call("show", "gpt2", "--plugin", "broken.py", cwd=tmp_path).returncode == 0
    change = 'decoder.layer.attention.sublayer={kind="mine"}'
    said = call("show", "gpt2", "--set", change, "--plugin", "broken.py", cwd=tmp_path)
    assert said.returncode == 2
    assert "broken.py, line 3: cannot be loaded: NameError" in said.stderr
    assert "broken" not in sys.modules


def test_names_that_lead_nowhere(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = call("show", "gpt2", "--plugin", "absent.py", cwd=tmp_path)
    assert (said.returncode, "no such file" in said.stderr) == (2, True)
    for name, words in {
        "absent_module.parts": "no such module is installed",
        "json.py": "a module called 'json' is there already",
        "my-parts.py": "letters, digits and underscores",
    }.items():
        (tmp_path / "json.py").write_text("")
        (tmp_path / "my-parts.py").write_text("")
        with pytest.raises(PluginError, match=words):
            anyformer.load_plugin(name)


def test_a_file_is_one_module_however_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "plain_part.py").write_text(PART)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("plain_part")
    assert anyformer.load_plugin("plain_part.py") is module
    assert anyformer.load_plugin(tmp_path / "plain_part.py") is module
    assert Sublayer.kinds["plain_matrix"] is module.Plain


def test_the_environment_may_name_a_file_beside_the_process(tmp_path, monkeypatch):
    (tmp_path / "plain_part.py").write_text(PART)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYFORMER_PLUGINS", "plain_part.py")
    assert Sublayer.kinds["plain_matrix"].__module__ == "plain_part"
    assert "absent" not in Sublayer.kinds  # which asks for every plug-in again


def distribution(folder: Path, code: str, entry: str) -> None:
    """An installed distribution in a folder of `sys.path`."""
    (folder / "plain_part.py").write_text(code)
    info = folder / "plain_parts-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-parts\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry)


def test_an_installed_plugin_needs_no_name(tmp_path, monkeypatch):
    distribution(tmp_path, PART, "[anyformer.parts]\nplain = plain_part\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        made = from_toml(Architecture, described("plain_matrix"))
        written = to_toml(made)
        assert 'plugins = [\n    "plain-parts==1.2",\n]' in written
        assert from_toml(Architecture, written) == made
    forget("plain_part", "plain_matrix")
    with pytest.raises(DescriptionError, match=r"without the plug-in plain-parts==1\.2.*: pip install plain-parts==1\.2"):
        from_toml(Architecture, written)


def test_an_installed_plugin_that_is_broken_is_told_and_not_in_the_way(tmp_path, monkeypatch):
    distribution(tmp_path, "nonsense", "[anyformer.parts]\nplain = plain_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    told, refused = r"plain-parts==1\.2 cannot be loaded \(NameError", "'plain_matrix' is no kind"
    with pytest.warns(Notice, match=told), pytest.raises(DescriptionError, match=refused):
        from_toml(Architecture, described("plain_matrix"))


def test_a_family_is_found_by_its_entry_point(tmp_path, monkeypatch):
    code = (
        "from anyformer.huggingface import Family, register\n"
        "from anyformer.huggingface.families.starcoder2 import FAMILIES, read as theirs\n\n\n"
        "def read(config):\n    return theirs(config)\n\n\n"
        "register(Family('my_coder', read, FAMILIES[0].names, 'MyCoderForCausalLM', FAMILIES[0].inert))\n"
    )
    distribution(tmp_path, code, "[anyformer.families]\nplain = plain_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert huggingface.family("my_coder").default_class == "MyCoderForCausalLM"


def test_families_are_registered_once():
    with pytest.raises(UserError, match="'llama' is read here already"):
        huggingface.register(Family("llama", lambda config: decoder_of(), {}, "X"))
    theirs = eval("lambda config: None", {"__name__": "another_plugin"})
    huggingface.register(Family("mine_alone", lambda config: decoder_of(), {}, "X"))
    with pytest.raises(UserError, match=r"'mine_alone' is that of a family in .*test_plugins already"):
        huggingface.register(Family("mine_alone", theirs, {}, "X"))
    with pytest.raises(HuggingFaceError, match=r"'unheard_of' is not known here.*--plugin FILE\.py"):
        huggingface.family("unheard_of")


def described(kind: str) -> str:
    """A decoder as TOML, with a part of this kind in its layer."""
    data = decoder_of(Attention(heads=4)).plain()
    (variant,) = data["decoder"]["variants"].values()
    variant["steps"][0]["branches"]["attention"]["sublayer"] = {"kind": kind}
    return tomli_w.dumps(data)


def forget(module: str, kind: str) -> None:
    """As in a process that never loaded a module."""
    del sys.modules[module]
    del Sublayer.kinds._classes[kind]


FAMILY = '''
"""Emu 3's text model, which the package reads within its composite alone."""

from anyformer.huggingface import Config, Family, register, words
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm
from anyformer.testing import Checks


def read(config: Config) -> Architecture:
    config.expect("attention_dropout", 0.0, 0)
    config.put(pad_token_id=0)  # which their class needs
    norm = words.rms_norm(config, 1e-5)
    heads = words.attention(config, kv_heads=8, rotary=words.rotary(config, theta=1e6))
    block = pre_norm(norm, heads, words.feedforward(config))
    return words.decoder(config, words.repeated(config, block), norm)


register(Family("emu3_text_model", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), "Emu3ForCausalLM"))
CHECKS = Checks(
    configurations=[
        {
            "model_type": "emu3_text_model", "vocab_size": 37, "hidden_size": 24, "intermediate_size": 20,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-3,
            "attention_dropout": 0.0, "pad_token_id": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        }
    ]
)
'''


@pytest.mark.parametrize(("read", "holds"), [("theta=1e6", True), ('theta=1e6, pairing="adjacent"', False)])
def test_a_family_is_held_against_transformers(read, holds, tmp_path, call):
    """A model type of transformers that the package does not read by itself, and the same with a mistake."""
    (tmp_path / "emu3.py").write_text(FAMILY.replace("theta=1e6", read))
    said = call("check", "emu3.py", "--only", "of transformers", cwd=tmp_path)
    assert (said.returncode == 0) is holds, said.stdout + said.stderr
    assert "logits are those of transformers" in said.stdout
    if holds:
        with forgetting():
            module = anyformer.load_plugin(tmp_path / "emu3.py")
            table = module.CHECKS.configurations[0]
            huggingface.export(
                build(huggingface.read_architecture(Config(table))[0]), tmp_path / "own", model_type=table["model_type"]
            )
            assert huggingface.verify(tmp_path / "own").agrees


def test_it_trains_in_two_processes(place, tmp_path):
    """The plug-in is named to the launched program as to any other, and the losses are those of one process."""
    words = ["-m", "anyformer", "train", "run.toml", "--out", str(tmp_path / "two"), *PLUGIN]
    said = forked(place, *words, processes=2)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "2 processes: data 2" in said.stdout
    one, two = (
        [row["loss"] for row in read_metrics(run) if row["kind"] == "train"] for run in (place / "runs/one", tmp_path / "two")
    )
    assert len(one) == 3
    assert two == pytest.approx(one, rel=1e-4)
    assert (tmp_path / "two/run.toml").read_text().startswith("version = 2\nplugins = [")
