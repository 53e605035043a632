"""The loss of tokens after the next one, from a model's predictions of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.model.loss import token_losses


def later_targets(targets_BT: Tensor, documents_BT: Tensor | None, k: int) -> Tensor:
    """The tokens that prediction k is of, (B, T - k): the target of the position k further on, if of the same document."""
    later = targets_BT[:, k:]
    if documents_BT is None:
        return later
    return torch.where(documents_BT[:, k:] == documents_BT[:, : later.shape[1]], later, IGNORED)


def later_losses(later: Sequence[Tensor], targets_BT: Tensor, documents_BT: Tensor | None) -> list[Tensor]:
    """Cross-entropy of each prediction k = 1, 2, ..., logits (B, T - k, V), summed over its targets: 0-d tensors in fp32.

    targets (B, T): those of the next token. A position whose target, or the token that its module is given, is of another
    document has no loss.
    """
    return [
        token_losses(logits, later_targets(targets_BT, documents_BT, k))[0].sum() for k, logits in enumerate(later, start=1)
    ]


def weighed(losses: Sequence[Tensor], weight: float) -> Tensor:
    """lambda / D * sum_k L_k: what DeepSeek-V3 adds to the loss of the next token (arXiv 2412.19437, equation 25).

    With lambda = D it is the sum of Gloeckle's heads (arXiv 2404.19737, section 2).
    """
    return weight / len(losses) * torch.stack(list(losses)).sum()
