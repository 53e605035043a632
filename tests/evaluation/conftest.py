"""Directories of runs with small models whose predictions differ, made without training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from anyformer import checkpoint
from anyformer.catalogue.llama import llama
from anyformer.data import BytePairs, Bytes, Text
from anyformer.describe import change_all
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.plan import Plan
from anyformer.resolving import architecture
from anyformer.training import Run, default_run, journal
from anyformer.training.held_out import corpus_of

LENGTH = 32
MakeRun = Callable[..., Path]


def sharp(model, factor=20.0):
    """The model with larger weights, so that its predictions are far from even."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    return model.eval()


def tiny_decoder(vocab=257) -> Architecture:
    return llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=vocab, tied=True)


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> Path:
    """Documents of many lengths."""
    folder = tmp_path_factory.mktemp("texts")
    for number in range(40):
        lines = [f"def f{number * line % 17}(x):\n    return x + {line * line % 97}\n" for line in range(number % 7 + 1)]
        (folder / f"{number}.txt").write_text("".join(lines))
    return folder


@pytest.fixture(scope="session")
def make_run(tmp_path_factory, texts) -> MakeRun:
    """`make_run(seed, architecture, data=...)`: the directory of a run with one checkpoint of random weights."""

    def made(seed: int = 0, model: Architecture | None = None, run: Run | None = None, vocab: int = 0) -> Path:
        directory = tmp_path_factory.mktemp("run")
        tokenizer = BytePairs(vocab=vocab) if vocab else Bytes()
        if run is None:
            run = Run(
                steps=1, batch=4, length=LENGTH, plan=Plan(precision="fp32", compile="off"),
                data=Text(paths=(str(texts),), tokenizer=tokenizer, validation=0.2),
                architecture=model or tiny_decoder(vocab or 257),
            )  # fmt: skip
        journal.write_run(directory, run)
        built = sharp(build(run.architecture, run.plan, seed=seed))
        checkpoint.save(built, checkpoint.directory_of(directory, 1), tokenizer=corpus_of(run).tokenizer)
        return directory

    return made


@pytest.fixture(scope="session")
def first(make_run) -> Path:
    return make_run(0)


@pytest.fixture(scope="session")
def second(make_run) -> Path:
    return make_run(1)


@pytest.fixture(scope="session")
def masked(make_run, texts) -> Path:
    """A run of a tiny BERT."""
    run = default_run(architecture("bert-base-uncased", tiny=True), (str(texts),))
    return make_run(0, run=change_all(run, {"length": LENGTH, "batch": 4, "steps": 1, "minutes": None, "data.validation": 0.2}))
