"""A model of a checkpoint, a cache that is empty, and a stand-in for an engine."""

from __future__ import annotations

import pytest
import torch

from anyformer import checkpoint
from anyformer.catalogue.llama import llama
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.engines import choice, proof
from anyformer.model.transformer import build
from engines.stand_in import StandInEngine

TINY = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=259)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkpoint of a model whose logits differ from token to token."""
    model = build(TINY, seed=3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    directory = tmp_path_factory.mktemp("models") / "tiny"
    checkpoint.save(model, directory, tokenizer=make_tokenizer(Bytes(), tuple, tuple))
    return directory


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(proof, "LENGTHS", (1, 9, 40))
    monkeypatch.setattr(proof, "STEPS", 6)
    return tmp_path / "cache" / "engines"


@pytest.fixture
def engine(monkeypatch):
    made = StandInEngine()
    monkeypatch.setattr(choice, "OTHERS", (made,))
    return made
