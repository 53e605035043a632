"""The package as others install it: a source distribution and the wheel that is built from it, in environments of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email import message_from_string
from importlib.metadata import version
from pathlib import Path

import pytest

import anyformer

ROOT = Path(__file__).parents[1]
FORMS = {"source distribution": ".tar.gz", "wheel": ".whl"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LIGHT = ("pydantic", "tomli-w", "rich", "typer", "regex", "jinja2", "numpy", "safetensors", "tokenizers")
"""What descriptions and prices need: every base dependency but torch."""
LLAMA = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128_256, "tie_word_embeddings": True,
}  # fmt: skip
GPT2 = 124_439_808
RUN = """
steps = 2
batch = 2
length = 16
architecture = "llama-12m"
data = { kind = "text", paths = ["text.txt"], tokenizer = { kind = "bytes" } }
plan = { compile = "off", precision = "fp32" }
[set]
"architecture.width" = 16
"architecture.decoder.order" = "layer"
"architecture.decoder.layer.attention.heads" = 2
"architecture.decoder.layer.attention.kv_heads" = 2
"architecture.decoder.layer.feedforward.width" = 16
"""


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    """What a command prints; it must succeed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """The source distribution, built from a copy of what is in the repository, and the wheel, built from it; by `FORMS`."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "answers.zip")
    shutil.copytree(ROOT / "src", source / "src", ignore=left_out)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd=out)
    found = {form: [file for file in out.iterdir() if file.name.endswith(ending)] for form, ending in FORMS.items()}
    assert {form: len(files) for form, files in found.items()} == dict.fromkeys(FORMS, 1)
    return {form: file for form, (file,) in found.items()}


@pytest.fixture
def wheel(built) -> Path:
    return built["wheel"]


def installed(distribution: Path, place: Path, *options: str, python: str = sys.executable) -> Path:
    """The interpreter of a new environment with the package in it, and with what it needs."""
    if python == sys.executable:
        venv.create(place)
    else:
        run(python, "-m", "venv", "--without-pip", place, cwd=distribution.parent)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", place / "bin" / "python")
    asked = ("--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt", *options, distribution)
    run(*pip, "install", *asked, cwd=distribution.parent)
    return place / "bin" / "python"


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert anyformer.__version__ == version("anyformer")
    numbered = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert numbered[0] == anyformer.__version__


def test_a_wheel_has_every_file_and_says_what_it_is(wheel):
    files = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    kinds = (".py", ".json", ".toml", ".jinja", ".typed")
    own = {str(path.relative_to(source)) for path in (source / "anyformer").rglob("*") if path.suffix in kinds}
    assert own | {"anyformer/py.typed"} <= set(files)
    (place,) = (name for name in files if name.endswith("/METADATA"))
    said = message_from_string(zipfile.ZipFile(wheel).read(place).decode())
    assert (said["Version"], said["License-Expression"]) == (anyformer.__version__, "Apache-2.0")
    assert said["License-File"] == "LICENSE"
    assert not [line for line in said.get_all("Requires-Dist") if "matplotlib" in line and "extra" not in line]


def test_an_installed_wheel_answers(wheel, tmp_path):
    python = installed(wheel, tmp_path / "own", "--no-deps")
    beside = {"PYTHONPATH": sysconfig.get_path("purelib"), "ANYFORMER_CACHE": str(tmp_path / "cache")}
    home = run(python, "-c", "import anyformer; print(anyformer.__file__)", cwd=tmp_path, **beside)
    assert home.startswith(str(tmp_path))
    command = python.with_name("anyformer")
    assert run(command, "--version", cwd=tmp_path, **beside).strip() == f"anyformer {anyformer.__version__}"
    assert "gpt2" in run(command, "list", "gpt2", cwd=tmp_path, **beside)
    assert "284.8 M" in run(command, "cost", "gpt2", "--mode", "decode", cwd=tmp_path, **beside)


def test_pictures_are_refused_and_runs_go_on_without_matplotlib(tmp_path, monkeypatch):
    from anyformer.describe import UserError
    from anyformer.pictures import draw_diagram
    from anyformer.training.chart import draw_losses

    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    with pytest.raises(UserError, match=r"pip install 'anyformer\[pictures\]'"):
        draw_diagram(anyformer.architecture("gpt2"), tmp_path / "gpt2.svg")
    draw_losses([], tmp_path / "loss.png", title="")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_descriptions_and_prices_need_no_torch_to_be_installed(wheel, tmp_path):
    python = installed(wheel, tmp_path / "light", "--no-deps")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *LIGHT, cwd=tmp_path)
    alone = {"ANYFORMER_CACHE": str(tmp_path / "cache")}
    assert "deepseek-v3" in run(python, "-m", "anyformer", "list", "deepseek", cwd=tmp_path, **alone)
    assert run(python, "-m", "anyformer", "cost", "deepseek-v3", "--mode", "decode", cwd=tmp_path, **alone)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    asked = "import anyformer as af, sys; print(af.mfu('config.json', 1e6, 8) > 0, 'torch' in sys.modules)"
    assert run(python, "-c", asked, cwd=tmp_path, **alone).split() == ["True", "False"]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "number"), [("wheel", number) for number in PYTHONS] + [("source distribution", PYTHONS[0])])
def test_an_empty_environment_installs_prices_trains_and_generates(form, number, built, tmp_path):
    found = next(Path.home().glob(f".pyenv/versions/{number}.*/bin/python"), None) or shutil.which(f"python{number}")
    if found is None:
        pytest.skip(f"no Python {number} on this machine")
    python = installed(built[form], tmp_path / "empty", python=str(found))

    def said(*words: str) -> str:
        return run(python.with_name("anyformer"), *words, cwd=tmp_path, ANYFORMER_CACHE=str(tmp_path / "cache"))

    home = run(python, "-c", "import anyformer; print(anyformer.__file__)", cwd=tmp_path).strip()
    assert Path(home).is_relative_to(tmp_path / "empty"), "an installed copy, not the checkout"
    assert "llama-3-8b" in said("list", "llama")
    assert "8,030,261,248" in said("show", "llama-3-8b")
    assert json.loads(said("cost", "gpt2", "--length", "128", "--json"))[0]["sheets"][0]["params"]["total"] == GPT2
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 400)
    (tmp_path / "run.toml").write_text(RUN)
    said("train", "run.toml", "--out", "ran")
    assert (tmp_path / "ran" / "summary.json").is_file()
    assert not (tmp_path / "ran" / "loss.png").is_file(), "matplotlib is an extra"
    once, again = (said("generate", "ran", "to be", "--max-tokens", "8", "--seed", "1") for _ in range(2))
    assert once == again
    assert once.startswith("to be")
