"""The loss of a model on held-out text, before and after a change."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from anyformer import checkpoint
from anyformer.data import Split, Text, TokenizerFile, prepare, windows
from anyformer.model import Architecture, Transformer
from anyformer.objectives import CausalObjective
from anyformer.objectives.feed import TextFeed
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.surgery.errors import SurgeryError
from anyformer.surgery.report import Loss
from anyformer.text import Tokenizer
from anyformer.training.evaluate import evaluate

LENGTH, BATCH, WINDOWS = 256, 8, 64
"""Sizes of the text that is read: up to so many tokens in each of so many windows."""


def check(architecture: Architecture, option: str = "data") -> None:
    """Refuse a model whose loss on text is not that of the next token."""
    try:
        CausalObjective().check(architecture)
    except ValueError as error:
        raise SurgeryError(f"{option}: text is read for its next tokens; {error}. Leave --{option} out") from None


def text_of(data: str, tokenizer: Tokenizer) -> Split:
    """All of a text in the model's tokens."""
    with tempfile.TemporaryDirectory() as place:
        tokenizer.beside.keep(Path(place))
        corpus = prepare(Text(paths=(data,), tokenizer=TokenizerFile(path=place), validation=0.0), progress=False)
    assert isinstance(corpus.train, Split), "text is prepared as running tokens"
    return corpus.train


def read(model: Transformer, text: Split) -> None:
    """Call the model on windows of a text, spread evenly over it."""
    for batch in windows(text, _length(text, model), BATCH, most=WINDOWS):
        model(torch.from_numpy(batch.tokens).to(model.device))


def loss_of(old: Transformer, new: Transformer, text: Split) -> Loss:
    """The loss of both models on the same windows, spread evenly over the text, in fp32."""
    objective, plan = CausalObjective(), Plan(precision=Fp32())
    feed = TextFeed(text, _length(text, old, new), BATCH, 0, isolate=False, sampling="epochs", make=objective.next_tokens)
    before, after = (evaluate(model, objective, feed, plan, most=WINDOWS) for model in (old, new))
    return Loss(before.loss, after.loss, after.count)


def _length(text: Split, *models: Transformer) -> int:
    """Tokens of a window that the text has and every model's position tables cover."""
    tables = [stack.max_length for model in models for stack in model.architecture.stacks.values()]
    return min(LENGTH, len(text) - 1, *(table or LENGTH for table in tables))


def tokenizer_beside(directory: Path) -> Tokenizer | None:
    """The tokenizer of a checkpoint or a Hugging Face directory, read without its weights; None if absent."""
    return Tokenizer.search(directory)


def newest(directory: Path) -> Path:
    """The latest checkpoint of a run, or the directory itself."""
    steps = checkpoint.steps(directory)
    return checkpoint.directory_of(directory, steps[-1]) if steps else directory
