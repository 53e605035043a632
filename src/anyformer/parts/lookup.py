"""Look-up of rows in a table, and the error for an index beyond it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.describe import InputError


def rows_of(table_VD: Tensor, index: Tensor, what: str, hint: str = "") -> Tensor:
    """table[index]: (V, D), (...) -> (..., D). `what`: the name of the indices in the `InputError` for one beyond the table.

    Indices are not checked beforehand: on a CPU torch refuses a wrong one, and only then are they searched for it.
    """
    if torch.compiler.is_compiling():
        return F.embedding(index, table_VD)
    try:
        return F.embedding(index, table_VD)
    except IndexError:
        least, most = int(index.min()), int(index.max())
        raise InputError(f"{what} run from {least} to {most}, and the table has rows 0 to {len(table_VD) - 1}{hint}") from None
