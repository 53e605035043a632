"""An exported model in transformers' `pipeline("text-generation")`: the same words as here, and the same end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

import anyformer as af
from anyformer.generation import Sampling, generated
from huggingface.layouts import LAYOUTS, write

ENDS = [2, 6, *range(9, 320, 4)]
PROMPTS = ("Once upon a time there was", "two and two are", "What is the answer?")
NEW = 24


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model with many ends, imported and exported; its weights are large, so that it prefers some tokens clearly."""
    place = tmp_path_factory.mktemp("pipeline")
    write(LAYOUTS["chat with several ends"], place / "model")
    settings = {"bos_token_id": 1, "eos_token_id": ENDS, "pad_token_id": 3, "do_sample": True, "temperature": 0.6}
    (place / "model" / "generation_config.json").write_text(json.dumps(settings))
    model, tokenizer = af.load(place / "model")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8.0 if weight.dim() > 1 else 1.0)
    af.export(model, place / "exported", tokenizer=tokenizer)
    return place / "exported"


@pytest.fixture(scope="module")
def theirs(exported: Path) -> Any:
    return pipeline("text-generation", model=str(exported), dtype=torch.float32)


@pytest.mark.parametrize("chat", [False, True])
def test_the_pipeline_says_the_same_and_stops(exported: Path, theirs: Any, chat: bool) -> None:
    model, tokenizer = af.load(exported)
    greedy = Sampling(temperature=0)
    ours = generated(model, tokenizer, PROMPTS, chat=chat, sampling=greedy, max_tokens=NEW)
    assert "end" in {each.reason for each in ours}, "a text ends before it must"
    given = [[{"role": "user", "content": prompt}] for prompt in PROMPTS] if chat else list(PROMPTS)
    said = theirs(given, do_sample=False, max_new_tokens=NEW, return_full_text=False)
    assert [each[0]["generated_text"] for each in said] == [each.text for each in ours]
