"""The loss of a model on held-out text, before and after a change."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anyformer import checkpoint
from anyformer.data import Data, Records, RecordTable, Split, Text, TokenizerFile, prepare, windows
from anyformer.data.columns import TOKENS
from anyformer.data.recognising import recognised
from anyformer.evaluation.subject import run_of
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives import CausalObjective
from anyformer.objectives.feed import TextFeed
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.text import Tokenizer
from anyformer.training.evaluate import evaluate
from anyformer.training.run import load_run
from anyformer.transforming.errors import TransformError
from anyformer.transforming.report import Loss

LENGTH, BATCH, WINDOWS = 256, 8, 64
"""Sizes of the text that is read: up to so many tokens in each of so many windows."""


def check(architecture: Architecture, option: str = "data") -> None:
    """Refuse a model whose loss on text is not that of the next token."""
    try:
        CausalObjective().check(architecture)
    except ValueError as error:
        raise TransformError(f"{option}: text is read for its next tokens; {error}. Leave --{option} out") from None


def text_of(data: str, tokenizer: Tokenizer, model: Path) -> Split:
    """All of a text in the model's tokens; of records, as its run reads them, or as they look: chats by the chat template."""
    with tempfile.TemporaryDirectory() as place:
        tokenizer.beside.keep(Path(place))
        read = {"paths": [data], "tokenizer": TokenizerFile(path=place).plain(), "validation": 0.0, "validation_paths": []}
        kind = _kind(data, model)
        described = Data.kinds[kind["kind"]].model_validate({**kind, **read})
        assert isinstance(described, Data)
        train = prepare(described, progress=False).train
    if isinstance(train, RecordTable):
        columns = [column for column in train.columns.values() if column.type == TOKENS]
        starts = columns[0].starts[:-1].tolist()
        return Split.of(np.concatenate([column.numbers for column in columns]), starts, train.bytes)
    assert isinstance(train, Split), "records and running text are what there is in files"
    return train


def _kind(data: str, model: Path) -> Mapping[str, Any]:
    """The description of data at a path without the path: that of the model's run where it reads records, else what it is."""
    run = run_of(model)
    own = None if run is None else load_run(run / "run.toml").data
    if isinstance(own, Records):
        found = recognised([data], (own.kind,))
        return own.plain() if found is None else {**own.plain(), **found.table}
    found = recognised([data])
    return Text(paths=(data,)).plain() if found is None else found.table


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
