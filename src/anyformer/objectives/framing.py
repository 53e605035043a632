"""`[CLS]` before a row and `[SEP]` after it."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from anyformer.objectives.text import Window, lengths_of


def framed(window: Window, first: int, last: int) -> Window:
    """Windows (B, T) between two special tokens, (B, T + 2); these belong to the first and the last document.

    The token after a row that ends early stands directly after its last token.
    """
    tokens = F.pad(F.pad(window.tokens, (1, 0), value=first), (0, 1))
    padding = None if window.padding is None else F.pad(F.pad(window.padding, (1, 0)), (0, 1), value=True)
    documents = window.documents
    if documents is not None:
        documents = torch.cat([documents[:, :1], documents, documents[:, -1:]], 1)
    ends = lengths_of(window) + 1
    tokens = tokens.scatter(1, ends[:, None], last)
    if padding is not None:
        padding = padding.scatter(1, ends[:, None], False)
    return Window(tokens, window.rows, documents, padding)
