"""The loss that trains the scores by which an attention chooses its keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.reports import Report
from anyformer.parts.call.state import EMPTY


def index_loss(scores: Tensor, allowed: Tensor, share: Tensor) -> Tensor:
    """KL(p || softmax(I)) over what a query chose, (..., k) -> (...) in fp32; p = `share` sums to 1 and has no gradient."""
    log_q = F.log_softmax(scores, -1).masked_fill(~allowed, 0)
    share = share.detach().masked_fill(~allowed, 0)
    return (torch.xlogy(share, share) - share * log_q).sum(-1)


def report_index(name: str, loss_BT: Tensor, context: Context) -> None:
    """Report the mean of the losses of all queries that count, under the name of their attention."""
    loss_BT = context.gathered(loss_BT[..., None])[..., 0]
    if context.share is not None:
        context = context.of_all_positions()
    assert context.auxiliary is not None, "asked for reports"
    counted_BT = (context.positions != EMPTY).expand_as(loss_BT)
    if context.auxiliary.counted is not None:
        counted_BT = counted_BT & context.auxiliary.counted
    mean = torch.where(counted_BT, loss_BT, 0).sum() / counted_BT.sum().clamp(min=1)
    context.auxiliary.reports[name] = Report(None, index=mean)
