"""Tiny random models for engines, written as `anyformer export` writes a model that was made here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

import anyformer as af

SHARP = 8.0
"""Factor of the random matrices, so that a model prefers some tokens clearly, and a wrong one shows."""
VOCABULARY = 256
PROMPTS = (
    (3, 200, 17, 45, 99, 120, 31),
    (7, 7, 250, 18),
    (9, 64, 128, 192, 255, 33, 21, 14, 77, 180, 140, 5, 66),
    (100,),
)
"""Prompts of unequal lengths, as token ids."""
NEW = 12
"""Tokens that are generated after each."""


def table_of(model_type: str, **sizes: Any) -> dict[str, Any]:
    """A `config.json` as transformers writes it: its defaults but for these sizes."""
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config: Any = transformers.AutoConfig.for_model(model_type, **{**ids, **sizes})
    table: dict[str, Any] = config.to_dict()
    return table


def made(what: Any, *, seed: int = 0, sharp: float = SHARP) -> af.Transformer:
    """A random model in fp32 of whatever names an architecture, its matrices times `sharp`, its vectors off their first values.

    A norm of weight 1 and a bias of 0 would hide a layout or an offset that an engine takes wrongly.
    """
    model = af.build(what, seed=seed).eval()
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(sharp)
            else:
                parameter.add_(torch.randn(parameter.shape, generator=drawn), alpha=0.2)
    return model


def exported(model: af.Transformer, directory: Path, **settings: Any) -> Path:
    """The directory that `export` writes of it; a directory that is there is written anew."""
    shutil.rmtree(directory, ignore_errors=True)
    af.export(model, directory, **settings)
    return directory


def sized(base: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Sizes, and those of one model besides."""
    return {**base, **more}
