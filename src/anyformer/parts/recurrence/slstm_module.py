"""The module of sLSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.pointwise.grouped_module import GroupedLinear
from anyformer.parts.recurrence.document_places import document_starts
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import by_head, split_heads
from anyformer.parts.recurrence.slstm import GATES, SLSTM
from anyformer.parts.recurrence.slstm_recurrence import slstm_recurrence
from anyformer.parts.sublayer import head_width

CONVOLVED = ("input_gate", "forget_gate")


class SLSTMModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, slstm: SLSTM, width: int) -> None:
        super().__init__()
        self.slstm, H, E = slstm, slstm.heads, head_width(width, slstm.heads, None)
        for name in GATES:
            self.add_module(name, GroupedLinear(width, width, H))
        self.recurrent = nn.Parameter(torch.empty(H, E, 4 * E))
        self.convolution = slstm.convolution.build(width) if slstm.convolution else None
        self.norm = slstm.norm.build(width) if slstm.norm else nn.Identity()

    def extra_repr(self) -> str:
        return f"heads={self.slstm.heads}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        convolved = x_BTD
        if self.convolution is not None:
            convolved = self.convolution(x_BTD, context, None if state is None else state.convolutions["gates"])
        given = [self.get_submodule(name)(convolved if name in CONVOLVED else x_BTD) for name in GATES]
        gates = context.see("gates", torch.cat([split_heads(x, self.slstm.heads) for x in given], -1))
        mixed = by_head("mixed", self.recur(gates, context, state).to(x_BTD.dtype), self.slstm.heads, context)
        return self.norm(mixed)  # type: ignore[no-any-return]

    def recur(self, gates: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The heads side by side in fp32 at least, (B, T, D), of what tokens give to the gates, (B, T, H, 4 E)."""
        with exactly(gates):
            gates, matrices, segments = exact(gates), exact(self.recurrent), context.segments
            first = gates.new_zeros(len(gates), 4, *matrices.shape[:2]) if state is None else state.sums.to(gates.dtype)
            starts = document_starts(segments)
            h_BTHE, after = slstm_recurrence(gates, matrices.to(gates.dtype), first, context.valid, starts)
            hold(after, state, context)
            return h_BTHE.flatten(2)
