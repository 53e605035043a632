"""Rows of a table, and words for a number that has none."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.describe import UserError


class InputError(UserError):
    """An input does not fit the model."""


def rows_of(table_VD: Tensor, index: Tensor, what: str, hint: str = "") -> Tensor:
    """table[index]: (V, D), (...) -> (..., D). `what`: what the numbers are, for `InputError` where one is beyond the table.

    No number is looked at before: on a CPU torch itself notices, and only then is it asked which.
    """
    if torch.compiler.is_compiling():
        return F.embedding(index, table_VD)
    try:
        return F.embedding(index, table_VD)
    except IndexError:
        least, most = int(index.min()), int(index.max())
        raise InputError(f"{what} run from {least} to {most}, and the table has rows 0 to {len(table_VD) - 1}{hint}") from None
