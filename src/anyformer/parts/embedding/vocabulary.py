"""A vocabulary that one process has whole, or of whose rows each process has some."""

from __future__ import annotations

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.lookup import rows_of


class Vocabulary(Protocol):
    """The look-up of tokens in a table (V, D), and the product with one."""

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        """The row of each token, (..., D)."""

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None, gain_V: Tensor | None = None) -> Tensor:
        """g (x W^T + b), (..., V)."""


class Whole:
    """The vocabulary of one process."""

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        return rows_of(table_VD, tokens, "tokens", ": is this the model's tokenizer?")

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None, gain_V: Tensor | None = None) -> Tensor:
        return gained(F.linear(x_D, table_VD, bias_V), gain_V)


def gained(logits_V: Tensor, gain_V: Tensor | None) -> Tensor:
    """Logits times the factor of each, if there is one."""
    return logits_V if gain_V is None else logits_V * gain_V.to(logits_V.dtype)


WHOLE_VOCABULARY = Whole()


class HoldsVocabulary(nn.Module):
    """The base of modules with a row or a logit per token."""

    vocabulary: Vocabulary = WHOLE_VOCABULARY
