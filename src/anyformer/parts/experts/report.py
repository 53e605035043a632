"""The report of a layer of experts on a call: penalties on its router, and the load that it asked for before any capacity."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.reports import Load, Report
from anyformer.parts.call.state import EMPTY
from anyformer.parts.experts.balance import balance_loss, picked, router_z_loss, sequence_balance_loss
from anyformer.parts.experts.router import RouterScores
from anyformer.parts.experts.router_module import RouterModule
from anyformer.parts.experts.selection_module import best


def report(router: RouterModule, routing: RouterScores, wanted_ZJ: Tensor, taken_ZJ: Tensor | None, context: Context) -> Report:
    """The report of all positions of the rows; `taken`: false for a choice without a place, None if all have one.

    Of a process that has some positions, which must have no capacity, it gathers the logits.
    """
    length = context.positions.shape[1]
    if context.share is not None:
        logits, rows = routing.inputs.logits, len(wanted_ZJ) // length
        if logits is not None:
            logits = context.gathered(torch.unflatten(logits, 0, (rows, length))).flatten(0, 1)
        context = context.of_all_positions()
        length = context.positions.shape[1]
        routing = router.routing(logits, torch.Size((rows, length)), context)
        wanted_ZJ = best(routing.preference, router.chosen)
    counted_BT = (context.positions != EMPTY).expand(len(wanted_ZJ) // length, -1)
    if context.auxiliary is not None and context.auxiliary.counted is not None:
        counted_BT = counted_BT & context.auxiliary.counted
    counted_Z, picked_ZX = counted_BT.flatten(), picked(wanted_ZJ, router.experts)
    dropped = torch.zeros((), dtype=torch.int64, device=wanted_ZJ.device)
    if taken_ZJ is not None:
        dropped = (~taken_ZJ & counted_Z[:, None]).sum()
    load = Load((picked_ZX & counted_Z[:, None]).sum(0), dropped)
    inputs, probabilities_ZX = routing.inputs, routing.probabilities
    if inputs.logits is None or inputs.scores is None or probabilities_ZX is None:
        return Report(load)
    # DeepSeek-V3 counts, within sequences, the experts that scores alone would choose: corrections must not hide imbalance.
    by_score_ZX = picked_ZX if inputs.correction is None else picked(best(inputs.scores, inputs.chosen), router.experts)
    return Report(
        load,
        balance_loss(probabilities_ZX, picked_ZX, counted_Z),
        sequence_balance_loss(
            probabilities_ZX.view(*counted_BT.shape, -1), by_score_ZX.view(*counted_BT.shape, -1), counted_BT, inputs.chosen
        ),
        router_z_loss(inputs.logits, counted_Z),
    )
