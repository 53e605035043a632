"""What a tokenizer puts around a text, put around each row of running text."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from anyformer.objectives.text import WindowBatch, lengths_of
from anyformer.text import Specials, Tokenizer
from anyformer.text.frame import Around
from anyformer.text.row_frame import row_frame
from anyformer.text.specials import FRAMING

MASKED = Specials(roles=(*FRAMING, "mask"), frames=True, rows=True)
"""The special tokens of objectives that hide tokens of framed rows."""
USUAL = 2
"""Special tokens around a row of which nothing is known, as `[CLS]` and `[SEP]`."""


def beyond_usual(tokenizer: Tokenizer) -> int:
    """How many more special tokens this tokenizer puts around a row than usual."""
    return row_frame(tokenizer).single.count - USUAL


def framed(window: WindowBatch, frame: Around) -> WindowBatch:
    """Windows (B, T) with the n tokens of a frame, (B, T + n); these belong to the first and the last document.

    The tokens behind a row that ends early stand directly after its last token.
    """
    before, behind = frame.before, frame.behind
    first, last = len(before), len(behind)
    tokens = F.pad(window.tokens, (first, last))
    tokens[:, :first] = torch.tensor(before, dtype=tokens.dtype)
    padding = None if window.padding is None else F.pad(F.pad(window.padding, (first, 0)), (0, last), value=True)
    documents = window.documents
    if documents is not None:
        documents = torch.cat([documents[:, :1].expand(-1, first), documents, documents[:, -1:].expand(-1, last)], 1)
    ends = lengths_of(window)[:, None] + first + torch.arange(last)
    tokens = tokens.scatter(1, ends, torch.tensor(behind, dtype=tokens.dtype).expand(len(tokens), -1))
    if padding is not None:
        padding = padding.scatter(1, ends, False)
    return WindowBatch(tokens, window.rows, documents, padding)
