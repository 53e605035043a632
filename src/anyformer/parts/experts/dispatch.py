"""Dispatch and combine: from tokens to the rows that experts compute, side by side by expert, and back.

Every size is known before the routing, so nothing waits for the device and a compiler needs no graph break. Rows move by
look-up, forward and backward: no sum is taken in an order that could change from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class ExpertRows:
    """Rows side by side by expert: `expert` (Q,) of each row; `ends` (X,): the end of each expert's rows, None if equally many.

    Not `whole`: rows after the last end belong to no expert that computes. `mixed`: rows lie in any order, without ends.
    """

    expert: Tensor
    ends: Tensor | None
    whole: bool = True
    mixed: bool = False

    @property
    def counts(self) -> Tensor:
        """The rows of each expert, (X,), of rows that are not mixed."""
        if self.ends is None:
            experts = int(self.expert[-1]) + 1
            return self.expert.new_full((experts,), len(self.expert) // experts)
        return self.ends.diff(prepend=self.ends.new_zeros(1))


@dataclass(frozen=True)
class Placement:
    """The rows that experts compute: Z tokens with J = k choices each, and Q rows, those of one expert side by side.

    `chosen` (Z, J): experts; `row` (Z, J): the row of each choice; `choice` (Q,): the choice, from 0 to Z * J - 1, of each
    row; `expert` (Q,): the expert of each row. `ends` (X,): the end of each expert's rows; None if all have equally many.
    `taken` (Z, J): false for a choice without a row; `filled` (Q,): false for a row that pads an expert; None if all are true.
    """

    chosen: Tensor
    row: Tensor
    choice: Tensor
    expert: Tensor
    ends: Tensor | None
    taken: Tensor | None = None
    filled: Tensor | None = None

    def groups(self, *, whole: bool) -> ExpertRows:
        """The rows of each expert."""
        return ExpertRows(self.expert, self.ends, whole)

    def dispatch(self, x_ZD: Tensor) -> Tensor:
        """(Z, D) -> (Q, D): the tokens that the experts read."""
        return _move(x_ZD, self.choice // self.chosen.shape[1], self.row, self.taken)

    def arrange(self, x_ZJI: Tensor) -> Tensor:
        """(Z, J, I) -> (Q, I): what a choice has, in the row of the choice."""
        taken = None if self.taken is None else self.taken.view(-1, 1)
        return _move(x_ZJI.flatten(0, 1), self.choice, self.row.view(-1, 1), taken)

    def spread(self, weights_ZJ: Tensor) -> Tensor:
        """(Z, J) -> (Q, 1): the weight of each row."""
        return self.arrange(weights_ZJ[..., None])

    def combine(self, y_QD: Tensor) -> Tensor:
        """(Q, D) -> (Z, J, D): the expert's output per choice, 0 for a choice without a row."""
        filled = None if self.filled is None else self.filled[:, None]
        y_ZJD = _move(y_QD, self.row, self.choice[:, None], filled)
        return y_ZJD if self.taken is None else y_ZJD * self.taken[..., None]


class InOrder(Placement):
    """The rows of each token side by side, Q = Z * J: nothing is sorted or looked up."""

    def groups(self, *, whole: bool) -> ExpertRows:
        return ExpertRows(self.expert, None, whole, mixed=True)

    def dispatch(self, x_ZD: Tensor) -> Tensor:
        tokens, choices = self.chosen.shape
        return x_ZD.expand(choices, -1) if tokens == 1 else x_ZD.repeat_interleave(choices, 0)

    def arrange(self, x_ZJI: Tensor) -> Tensor:
        return x_ZJI.flatten(0, 1)

    def combine(self, y_QD: Tensor) -> Tensor:
        return y_QD.view(*self.chosen.shape, -1)


def in_order(chosen_ZJ: Tensor) -> Placement:
    """Exactly one row per choice, as the choices come."""
    expert = chosen_ZJ.flatten()
    return InOrder(chosen_ZJ, chosen_ZJ, expert, expert, None)


def sorted_by_expert(chosen_ZJ: Tensor, experts: int) -> Placement:
    """Exactly one row per choice: Q = Z * J."""
    expert_Q, choice_Q = torch.sort(chosen_ZJ.flatten(), stable=True)
    count = torch.arange(choice_Q.shape[0], device=choice_Q.device)
    row_ZJ = torch.zeros_like(choice_Q).scatter(0, choice_Q, count).view(chosen_ZJ.shape)
    ends_X = torch.searchsorted(expert_Q, torch.arange(experts, device=expert_Q.device), right=True)
    return Placement(chosen_ZJ, row_ZJ, choice_Q, expert_Q, ends_X)


def in_places(chosen_ZJ: Tensor, taken_ZJ: Tensor, place_ZJ: Tensor, experts: int, places: int) -> Placement:
    """`places` rows per expert: Q = X * places; a free row computes some token, and its output is not used."""
    rows = experts * places
    row_ZJ = torch.where(taken_ZJ, chosen_ZJ * places + place_ZJ, rows)
    # One more row, for choices without a place.
    choice = torch.zeros(rows + 1, dtype=torch.int64, device=row_ZJ.device)
    choice = choice.scatter(0, row_ZJ.flatten(), torch.arange(row_ZJ.numel(), device=row_ZJ.device))
    filled = torch.zeros_like(choice, dtype=torch.bool).scatter(0, row_ZJ.flatten(), True)
    expert_Q = torch.arange(experts, device=row_ZJ.device).repeat_interleave(places)
    return Placement(chosen_ZJ, row_ZJ.clamp(max=rows - 1), choice[:-1], expert_Q, None, taken=taken_ZJ, filled=filled[:-1])


def _move(x: Tensor, index: Tensor, inverse: Tensor, real: Tensor | None) -> Tensor:
    if not torch.is_grad_enabled():
        return _moved(x, index)
    moved: Tensor = _Move.apply(x, index, inverse, real)  # type: ignore[no-untyped-call]
    return moved


def _moved(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index.flatten()).view(*index.shape, x.shape[1])


class _Move(torch.autograd.Function):
    """x[index]; the gradient of x[i] is the sum of the gradients at inverse[i] where `real` is true.

    The plain gradient of x[index] adds into rows in any order; here the inverse of the index gives a fixed one.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor, real: Tensor | None) -> Tensor:
        ctx.save_for_backward(inverse, real)
        return _moved(x, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        inverse, real = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        back = rows.index_select(0, inverse.flatten()).view(*inverse.shape, rows.shape[1])
        return (back if real is None else back * real[..., None]).sum(1), None, None, None
