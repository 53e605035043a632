"""`load`: a model and its tokenizer from a run's directory, a checkpoint's or one of Hugging Face's layout."""

from __future__ import annotations

import warnings
from os.path import exists, isdir, isfile  # which no name is too long for
from pathlib import Path

import torch

from anyformer import catalogue, checkpoint, huggingface
from anyformer.data import Tokenizer
from anyformer.describe import Notice, read_data
from anyformer.model import Transformer
from anyformer.plan import Plan


def load(
    path: str | Path, *, plan: Plan | None = None, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> tuple[Transformer, Tokenizer | None]:
    """The model of a checkpoint, of a run's latest undamaged checkpoint, or of a Hugging Face directory, in evaluation mode.

    And its tokenizer, None if absent. Only safetensors are read, never pickles. `dtype`: of the weights, by default as stored.
    A `Notice` warns of each damaged checkpoint that is skipped.
    """
    path = Path(path)
    if not isdir(path):
        if str(path) in (entry.name for entry in catalogue.listing()):
            raise checkpoint.CheckpointError(
                f"{path}: an architecture without weights; train it first with anyformer train {path} --data PATH, and give "
                "the directory of that run"
            )
        problem = "is a file" if exists(path) else "no such directory"
        raise checkpoint.CheckpointError(
            f"{path}: {problem}; give the directory of a run, a checkpoint or a Hugging Face model"
        )
    if isfile(path / "config.json") and not isfile(path / checkpoint.MANIFEST):
        return huggingface.load(path, plan=plan, device=device, dtype=dtype)
    if checkpoint.steps(path):
        newest, damaged = checkpoint.latest(path)
        if newest is None:
            raise checkpoint.CheckpointError(f"{path}: every checkpoint is damaged: {'; '.join(damaged)}")
        for problem in damaged:
            warnings.warn(f"skipping a damaged checkpoint: {problem}", Notice, stacklevel=2)
        path = newest
    elif (path / "run.toml").is_file():
        raise checkpoint.CheckpointError(
            f"{path}: this run has no checkpoint yet; continue it with anyformer train --resume {path}"
        )
    elif not (path / checkpoint.MANIFEST).is_file():
        raise checkpoint.CheckpointError(
            f"{path}: holds no weights: neither checkpoints of a run, nor {checkpoint.MANIFEST} (a checkpoint), nor "
            "config.json (a Hugging Face model)"
        )
    model, tokenizer, _ = checkpoint.load(path, plan=plan, device=device, dtype=dtype)
    return model, tokenizer


def trained_length(path: str | Path) -> int | None:
    """Length of the texts that a model was trained on, None where it is not recorded.

    The `length` of a run, also for its checkpoints; the `max_position_embeddings` of a Hugging Face directory, also for a
    checkpoint imported from it.
    """
    path = Path(path)
    for run in (path, path.absolute().parent.parent):
        if (run / "run.toml").is_file():
            return _whole(read_data(run / "run.toml").get("length"))
    if (path / checkpoint.MANIFEST).is_file():
        return _whole(checkpoint.read_manifest(path).facts.get("length"))
    if (path / "config.json").is_file():
        return _whole(huggingface.read_config(path)("max_position_embeddings", None))
    return None


def _whole(length: object) -> int | None:
    return length if isinstance(length, int) and length > 0 else None
