"""`load`: a model and its tokenizer from a run's directory, a checkpoint's or one of Hugging Face's layout."""

from __future__ import annotations

from os.path import isdir, isfile  # which no name is too long for
from pathlib import Path

import torch

from anyformer import checkpoint, huggingface
from anyformer.data import Tokenizer
from anyformer.model import Transformer
from anyformer.plan import Plan


def load(
    path: str | Path, *, plan: Plan | None = None, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> tuple[Transformer, Tokenizer | None]:
    """The model of a checkpoint, of a run's latest whole one, or of a Hugging Face directory, in evaluation mode.

    And its tokenizer, None if absent. Only safetensors are read, never pickles. `dtype`: convert the weights, else keep theirs.
    """
    path = Path(path)
    if isfile(path / "config.json") and not isfile(path / checkpoint.MANIFEST):
        return huggingface.load(path, plan=plan, device=device, dtype=dtype)
    if not isdir(path):
        raise checkpoint.CheckpointError(f"{path}: no such directory; give a run's directory or a checkpoint's")
    if checkpoint.steps(path):
        found, damaged = checkpoint.latest(path)
        if found is None:
            raise checkpoint.CheckpointError(f"{path}: every checkpoint is damaged: {'; '.join(damaged)}")
        path = found
    elif (path / "run.toml").is_file():
        raise checkpoint.CheckpointError(
            f"{path}: this run has no checkpoint yet; continue it with anyformer train --resume {path}"
        )
    model, tokenizer, _ = checkpoint.load(path, plan=plan, device=device, dtype=dtype)
    return model, tokenizer
