"""vLLM's steps hand out logits and go on with the tokens that are chosen here, whatever it does with its rows.

The real engine is asked by `python -m benchmarks.engines vllm`; here a stand-in has its face.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from anyformer.catalogue.llama import llama
from anyformer.engines import Asked, EngineRefusedError, ModelLoading, proof
from anyformer.engines.proof import prove
from anyformer.engines.vllm import VllmEngine
from anyformer.engines.vllm_library import LEAST, VllmModel, VllmPlaces
from anyformer.generation import Sampling
from anyformer.generation.continuous_batching import served
from anyformer.generation.state_rows import state_rows
from anyformer.huggingface import export
from anyformer.model.transformer import build
from engines import stand_in_vllm

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [10, 11]]


@pytest.fixture(scope="module")
def model():
    made = build(llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=64), seed=3).eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    return made


@pytest.fixture
def vllm(monkeypatch, model):
    return stand_in_vllm.installed(monkeypatch, model)


@pytest.fixture
def opened(vllm, model):
    return VllmModel(Path("nowhere"), "float32", model.architecture)


def texts(places, **more):
    """What follows the prompts; a text ends with a token under 8."""
    found = {row: [] for row in range(len(PROMPTS))}
    settings = {"sampling": Sampling(temperature=0.9, seed=3), "max_tokens": 12, "ends": tuple(range(8)), **more}
    ended = set()
    for step in served(places(PROMPTS, len(PROMPTS), 12), PROMPTS, ended=ended.__contains__, **settings):
        for token in step:
            if token.row not in ended:
                found[token.row].append(token.number)
                ended |= {token.row} if token.number < 8 else set()
    return found


def test_the_same_seed_gives_the_same_texts(model, opened):
    own = texts(partial(state_rows, model))
    assert len({len(text) for text in own.values()}) > 1, "texts end at different steps"
    assert texts(partial(VllmPlaces, opened)) == own
    assert texts(partial(VllmPlaces, opened)) == own, "and again, in the engine that is open"


def test_it_is_proved_and_opened_once(model, opened, vllm, monkeypatch):
    monkeypatch.setattr(proof, "LENGTHS", (1, 9, 40))
    for _ in range(2):  # the second ends what the first left under way
        assert prove(model, partial(VllmPlaces, opened), ["1"]).exact
    assert vllm.made == 1


def test_longer_texts_open_it_again(opened, vllm):
    for length in (4, LEAST.length + 1):
        places = VllmPlaces(opened, [[1] * length], 1, 1)
        assert places.enter([0], [0]).shape == (1, 64)
        places.leave([0])
    assert vllm.made == 2


def test_a_model_is_told_of_texts_beyond_its_length(model, vllm):
    for trained, told in ((32, 41), (64, 64)):
        places = VllmPlaces(VllmModel(Path("nowhere"), "float32", model.architecture, trained), [[1] * 40], 1, 1)
        wanted = places._engine.wanted
        assert wanted.max_model_len == told
        assert wanted.hf_overrides == ({"max_position_embeddings": 41} if trained == 32 else {})


def test_all_prompts_begin_together(opened):
    with pytest.raises(EngineRefusedError, match="it reads all 4 prompts together: leave --batch 2 out"):
        VllmPlaces(opened, PROMPTS, 2, 8)


def test_its_errors_are_said(opened, vllm, monkeypatch):
    monkeypatch.setattr(vllm, "dies_at", 2)
    places = VllmPlaces(opened, PROMPTS, 4, 8)
    places.enter(range(4), range(4))
    with pytest.raises(EngineRefusedError, match="vLLM gave up: RuntimeError: out of memory"):
        places.advance([0] * 4)


def test_directories_of_the_usual_layout_are_its_own_files(model, tmp_path):
    export(model, tmp_path / "llama")
    export(model, tmp_path / "own", model_type="anyformer")
    engine = VllmEngine()
    assert engine.own_file(tmp_path / "llama")
    assert not engine.own_file(tmp_path / "own"), "our own layout is of no type that it knows"
    with pytest.raises(EngineRefusedError, match="longer to begin"):
        engine.form(Asked(tmp_path / "llama", ModelLoading(tmp_path, lambda: pytest.fail("nothing is loaded"))))
