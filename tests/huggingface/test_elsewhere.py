"""Our own layout in a program that does not import us: transformers, its pipeline and PEFT load it by the files in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from zoo import DECODERS, ENCODERS, PAIRS

import anyformer as af
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change
from anyformer.huggingface.remote_files import NEEDED, REMOTE_FILES, remote_files
from anyformer.model.transformer import Transformer, build

HERE = Path(__file__).parent
TOKENS = torch.arange(1, 15).view(2, 7)


@pytest.fixture(scope="module")
def models() -> dict[str, Transformer]:
    encoder = ENCODERS["encoder"]
    described = {
        "model": change(DECODERS["streams"], "embedding.vocab", 257),
        "masked": encoder,
        "classes": change(encoder, "head", {"pool": "mean", "outputs": 3}),
        "bare": encoder.but(head=None),
        "pair": next(iter(PAIRS.values())),
    }
    return {name: build(architecture).eval() for name, architecture in described.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Transformer]) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    for name, model in models.items():
        af.export(model, folder / name, model_type="anyformer", tokenizer=tokenizer if name == "model" else None)
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    alone = {**os.environ, "HF_MODULES_CACHE": str(folder / "modules"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    program = [sys.executable, str(HERE / "elsewhere.py"), str(folder)]
    done = subprocess.run(program, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_program_without_us_gets_the_same_model(told: dict[str, Any], models: dict[str, Transformer]) -> None:
    assert not told["imported"]
    for name in ("masked", "classes", "bare"):
        torch.testing.assert_close(torch.tensor(told[name]), models[name](TOKENS), rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.tensor(told["pair"]), models["pair"](TOKENS, TOKENS[:, :3]), rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.tensor(told["features"]), models["model"].features(TOKENS), rtol=0, atol=1e-6)


def test_what_it_saves_and_learns_and_generates(told: dict[str, Any]) -> None:
    facts = told["causal"]
    assert facts["class"] == "anyformer.huggingface.auto.causal", "the installed class, and no copy of it"
    assert facts["saved twice"] == facts["embedded"] == facts["adapter"] == 0
    assert facts["caches"] == [True, True, True]
    assert facts["left padding"]
    assert len(facts["pipeline"]) > 4
    assert facts["type"] == "torch.bfloat16"
    assert facts["learnt"] == ["lora_A", "lora_B"]
    assert facts["merged"] < 1e-4


def test_what_is_saved_has_the_files_again_and_is_read_here(told: dict[str, Any], folder: Path) -> None:
    for name in ("twice", "merged"):
        assert {*REMOTE_FILES} <= {path.name for path in (folder / name).iterdir()}
        assert json.loads((folder / name / "config.json").read_text())["auto_map"]["AutoModelForCausalLM"] == (
            "modeling_anyformer.AnyformerForCausalLM"
        )
    assert af.load(folder / "merged")[0].architecture.embedding.symbols == 300
    kept, _ = af.load(folder / "twice")
    af.export(kept, folder / "back")
    assert {*REMOTE_FILES} <= {path.name for path in (folder / "back").iterdir()}


@pytest.mark.parametrize("file", REMOTE_FILES)
def test_without_the_package_the_error_names_it_and_its_version(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anyformer.huggingface.auto", None)
    with pytest.raises(ImportError, match=re.escape(f"pip install '{NEEDED}'")):
        exec(remote_files()[file], {})
