"""One text, or two, as a row of the model: `[CLS] a [SEP]`, `[CLS] a [SEP] b [SEP]` (BERT, arXiv 1810.04805), or as else the
tokenizer frames them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, RecordBatch, RecordTable
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Setting
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.head_module import at_last
from anyformer.text import Specials, Tokenizer
from anyformer.text.frame import Around, Frame
from anyformer.text.row_frame import row_frame
from anyformer.text.specials import FRAMING

FRAME = Specials(roles=FRAMING, frames=True)
"""The special tokens of objectives on whole texts, in a tokenizer made here."""


class Sequences(NamedTuple):
    """Rows (B, T): `tokens`, `padding`, and `types`, the segments as the tokenizer numbers them."""

    tokens: Tensor
    padding: Tensor
    types: Tensor


def around(tokenizer: Tokenizer, texts: int, frame: bool) -> Around:
    """What stands around one text or two: what the tokenizer puts there, or without `frame` nothing."""
    found = row_frame(tokenizer) if frame else Frame.plain((), ())
    return found.single if texts == 1 else found.pair


def sequences(texts: Sequence[Sequence[Ints]], length: int, tokenizer: Tokenizer, frame: bool) -> Sequences:
    """Rows of one or two texts each; without `frame` the texts alone, one directly after the other."""
    rows = [around(tokenizer, len(own), frame).framed([text.tolist() for text in own]) for own in texts]
    tokens = torch.from_numpy(padded([row.tokens for row in rows], length, -1))
    return Sequences(tokens.clamp(min=0), tokens < 0, torch.from_numpy(padded([row.types for row in rows], length, 0)))


def texts_of(batch: RecordBatch) -> list[list[Ints]]:
    """The texts of records whose columns are `text` and perhaps `pair`."""
    return [[record[name] for name in ("text", "pair") if name in record] for (record,) in batch.records]


def lengths_of(table: RecordTable, tokenizer: Tokenizer, frame: bool) -> Ints:
    """(records,): the positions that a record with the columns `text` and perhaps `pair` takes."""
    columns = [name for name in ("text", "pair") if name in table.columns]
    total = np.sum([table.lengths(name) for name in columns], axis=0)
    return np.asarray(total + around(tokenizer, len(columns), frame).count, dtype=np.int64)


def labelled(batch: RecordBatch, setting: Setting, frame: bool) -> Examples:
    """Records of `tokens` and `labels`: a target (B, T) per token, `IGNORED` for what stands around a text and behind it."""
    texts, labels = [[record["tokens"]] for (record,) in batch.records], [record["labels"] for (record,) in batch.records]
    given = sequences(texts, setting.length, setting.tokenizer, frame)
    edge = [IGNORED] * len(around(setting.tokenizer, 1, frame).before)
    targets = torch.from_numpy(padded([[*edge, *own.tolist()] for own in labels], setting.length, IGNORED))
    return Examples(given.tokens, targets, None, torch.from_numpy(batch.rows), padding=given.padding, types=given.types)


def sequence_inputs(model: Transformer, examples: Examples) -> dict[str, Tensor | None]:
    """What a model reads beside the tokens; types of segments are told where its embedding has several.

    All of a row is given, so a mask with a prefix reads all of it both ways.
    """
    types = examples.types if model.architecture.embedding.segments > 1 else None
    prefix = None if examples.padding is None else (~examples.padding).sum(1)
    return {"padding": examples.padding, "prefix": prefix, "types": types}


def outputs(model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
    """The model's outputs."""
    result: Tensor = model(examples.tokens, **sequence_inputs(model, examples), noise=noise, auxiliary=auxiliary)
    return result


def pooled(outputs: Tensor, examples: Examples) -> Tensor:
    """One output per row, (B, V): that of the head's pool, or else of the last token, as in a decoder."""
    return outputs if outputs.dim() == 2 else at_last(outputs, examples.padding)
