"""One text, or two, as a row of the model: `[CLS] a [SEP]`, `[CLS] a [SEP] b [SEP]` (BERT, arXiv 1810.04805)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyformer.data import RecordBatch, Table
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model import Transformer
from anyformer.objectives.examples import Examples
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.head import at_last
from anyformer.text import Specials, Tokenizer

FRAME = Specials(roles=("cls", "sep"))


class Sequences(NamedTuple):
    """Rows (B, T): `tokens`, `padding`, and `types`, 0 in the first text with its special tokens, 1 in the second."""

    tokens: Tensor
    padding: Tensor
    types: Tensor


def sequences(texts: Sequence[Sequence[Ints]], length: int, tokenizer: Tokenizer, frame: bool) -> Sequences:
    """Rows of one or two texts each; without `frame` the texts alone, one directly after the other."""
    first, last = ([tokenizer.special("cls")], [tokenizer.special("sep")]) if frame else ([], [])
    rows, types = [], []
    for own in texts:
        parts = [[*(first if number == 0 else []), *text.tolist(), *last] for number, text in enumerate(own)]
        rows.append([token for part in parts for token in part])
        types.append([number for number, part in enumerate(parts) for _ in part])
    tokens = torch.from_numpy(padded(rows, length, -1))
    return Sequences(tokens.clamp(min=0), tokens < 0, torch.from_numpy(padded(types, length, 0)))


def texts_of(batch: RecordBatch) -> list[list[Ints]]:
    """The texts of records whose columns are `text` and perhaps `pair`."""
    return [[record[name] for name in ("text", "pair") if name in record] for (record,) in batch.records]


def lengths_of(table: Table, frame: bool) -> Ints:
    """(records,): the positions that a record with the columns `text` and perhaps `pair` takes."""
    columns = [name for name in ("text", "pair") if name in table.columns]
    total = np.sum([table.lengths(name) for name in columns], axis=0)
    return np.asarray(total + (len(columns) + 1 if frame else 0), dtype=np.int64)


def outputs(model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
    """The model's outputs; types of segments are told where its embedding has several.

    All of a row is given, so a mask with a prefix reads all of it both ways.
    """
    types = examples.types if model.architecture.embedding.segments > 1 else None
    prefix = None if examples.padding is None else (~examples.padding).sum(1)
    result: Tensor = model(
        examples.tokens, padding=examples.padding, prefix=prefix, types=types, noise=noise, auxiliary=auxiliary
    )
    return result


def pooled(outputs: Tensor, examples: Examples) -> Tensor:
    """One output for each row, (B, V): that of the head's pool, or else of the last token, as in a decoder."""
    return outputs if outputs.dim() == 2 else at_last(outputs, examples.padding)
