"""The product of a few rows, each by the matrix that was chosen for it, in whatever order they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

FEW = 64
"""Rows that are multiplied where they lie; of more, several have the same matrix, and to sort them pays."""


def chosen_product(rows_QI: Tensor, weight_XOI: Tensor, expert_Q: Tensor) -> Tensor:
    """(Q, I) -> (Q, O): row q times matrix expert[q]; 0 where there is no matrix of that number.

    2 * Q * I * O FLOPs. One call to whoever watches calls of torch: which products it makes depends on the routing.
    """
    if has_torch_function((rows_QI, weight_XOI, expert_Q)):
        made: Tensor = handle_torch_function(chosen_product, (rows_QI, weight_XOI, expert_Q), rows_QI, weight_XOI, expert_Q)
        return made
    if weight_XOI.dtype != rows_QI.dtype:
        weight_XOI = weight_XOI.to(rows_QI.dtype)
    experts, outputs = len(weight_XOI), weight_XOI.shape[1]
    return each_by_its_own(rows_QI, expert_Q.tolist(), experts, outputs, lambda x, rows: F.linear(rows, weight_XOI[x]))


def each_by_its_own(
    rows_QI: Tensor, expert_Q: Sequence[int], experts: int, outputs: int, product: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """`chosen_product`, of which `product` makes that of some rows with matrix x."""
    places: dict[int, list[int]] = {}
    for row, x in enumerate(expert_Q):
        if x < experts:
            places.setdefault(x, []).append(row)
    if len(places) == len(rows_QI):
        return torch.cat([product(x, rows_QI[row : row + 1]) for x, (row,) in places.items()])
    y_QO = rows_QI.new_zeros(len(rows_QI), outputs)
    for x, rows in places.items():
        index = torch.tensor(rows)
        y_QO[index] = product(x, rows_QI[index])
    return y_QO


@torch.library.custom_op("anyformer::chosen_product", mutates_args=())
def _chosen(rows_QI: Tensor, weight_XOI: Tensor, expert_Q: Tensor) -> Tensor:
    """(Q, I), (X, O, I) -> (Q, O)."""
    return chosen_product(rows_QI, weight_XOI, expert_Q)


@_chosen.register_fake
def _(rows_QI: Tensor, weight_XOI: Tensor, expert_Q: Tensor) -> Tensor:
    return rows_QI.new_empty(rows_QI.shape[0], weight_XOI.shape[1])


CHOSEN = torch.ops.anyformer.chosen_product.default
"""The operator, as which it is compiled."""
