"""`anyformer conform`: the table, the exit code, golden vectors in a file, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

import anyformer as af
from anyformer.conforming.facts import TEXTS
from anyformer.conforming.layers import _states
from conforming.engines import OtherNorm, RightEngine
from conforming.http_stand_in import VLLM, serving
from text.chat.folders import LOGICS, plain, write_model

TOKENS = torch.arange(3, 9)
FEW = [word for case in ("plain", "reset", "prompt", "text", "chunked") for word in ("--cases", case)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("conform"), plain(LOGICS["thinking"]))


@pytest.fixture(scope="module")
def protocol(folder):
    model, tokenizer = af.load(folder)
    return VLLM(RightEngine(model), {text: tuple(tokenizer.framed(tokenizer.encode(text)).tokens) for text in TEXTS})


def test_a_right_engine_and_a_wrong_one(folder, protocol, call):
    with serving(protocol) as url:
        right = call("conform", url, str(folder), *FEW)
        assert right.returncode == 0, right.stdout + right.stderr
        assert "the engine is right in all" in right.stdout
        assert "golden vectors 1/5: plain" in right.stderr
        assert "chunked: not asked, since" in right.stdout
        protocol.engine = OtherNorm(protocol.engine.net)
        wrong = call("conform", url, str(folder), *FEW)
        assert wrong.returncode == 1
        assert "plain departs from length 24 on, at token 1 made: off by" in wrong.stdout
        assert "look first at plain: the computation itself" in wrong.stdout
        told = json.loads(call("conform", url, str(folder), *FEW, "--json").stdout)
        assert (told["conforms"], told["first"]) == (False, "plain")
        assert told["cases"][0]["departures"][0]["where"] == "length 24"


def test_golden_vectors_serve_without_the_model(folder, protocol, call, tmp_path):
    saved = call("conform", "-", str(folder), *FEW, "--save", "golden.json", cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr
    with serving(protocol) as url:
        held = call("conform", url, "--golden", "golden.json", "--cases", "text", "--cases", "batch", cwd=tmp_path)
    assert "batch: not asked, since the golden vectors have no such case" in held.stdout
    assert held.returncode == 1, "the engine is the wrong one of before"


def test_layers_that_an_engine_wrote(folder, call, tmp_path):
    model, _ = af.load(folder)
    for name, engine in {"right": model, "wrong": OtherNorm(model).net}.items():
        states = {f"layers.{layer}": state.clone() for layer, state in _states(engine, TOKENS).items()}
        save_file({"tokens": TOKENS, **states}, tmp_path / f"{name}.safetensors")
    right = call("conform", "-", str(folder), "--layers", "right.safetensors", cwd=tmp_path)
    assert (right.returncode, right.stdout.splitlines()[-1]) == (0, "the layers are right")
    wrong = call("conform", "-", str(folder), "--layers", "wrong.safetensors", "--json", cwd=tmp_path)
    assert wrong.returncode == 1
    assert json.loads(wrong.stdout)["first"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("- MODEL", "say with --save FILE.json"),
        ("http://127.0.0.1:9", "give MODEL, or the file of its golden vectors"),
        ("http://127.0.0.1:9 MODEL", "is the server running"),
        ("127.0.0.1:9 MODEL", "no address of a server"),
        ("- MODEL --save x.json --cases cache", "did you mean 'cached'"),
        ("- --golden x.json --save y.json", "give one of the two"),
        ("http://127.0.0.1:9 MODEL --layers x.safetensors", "give it with - and MODEL"),
        ("http://127.0.0.1:9 --golden nowhere.json", "is the server running"),
        ("- MODEL --save x.json --longest 4 --cases cached", "no such directory"),
    ],
)
def test_what_is_refused(words, said, folder, call, tmp_path):
    place = str(folder) if "no such" not in said else "nowhere"
    found = call("conform", *words.replace("MODEL", place).split(), cwd=tmp_path)
    assert found.returncode == 2
    assert said in found.stderr
