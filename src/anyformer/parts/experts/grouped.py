"""Grouped product: rows that lie side by side by group, each group times a matrix of its own.

A custom operator, because torch's `grouped_mm` compiles for bf16 only; where `grouped_mm` fits, it does the computing. To a
compiler it is one call of known size; its gradients are grouped products too.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function


def grouped_product(rows_QI: Tensor, weight_XOI: Tensor, ends_X: Tensor | None, *, whole: bool = True) -> Tensor:
    """(Q, I) -> (Q, O): each row times its group's matrix; group x ends before row ends[x], or all are equally long (None).

    2 * Q * I * O FLOPs whatever the groups. Not `whole`: rows after the last end belong to no group, and become 0.
    """
    if weight_XOI.dtype != rows_QI.dtype:
        weight_XOI = weight_XOI.to(rows_QI.dtype)
    if ends_X is None:
        rows = rows_QI.view(len(weight_XOI), -1, rows_QI.shape[1])
        return torch.bmm(rows, weight_XOI.transpose(1, 2)).flatten(0, 1)
    if rows_QI.device.type == "meta":
        # Groups are unknown there, and all matrices have one size: a product with the first one has the same count.
        return rows_QI @ weight_XOI[0].T
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        product: Tensor = _product(rows_QI, weight_XOI, ends_X, whole)
        return product
    # For one token the call of the operator takes longer than its products.
    return grouped_products(rows_QI, weight_XOI, ends_X, whole)


@torch.library.custom_op("anyformer::grouped_product", mutates_args=())
def _product(rows_QI: Tensor, weight_XOI: Tensor, ends_X: Tensor, whole: bool) -> Tensor:
    """(Q, I), (X, O, I) -> (Q, O)."""
    return grouped_products(rows_QI, weight_XOI, ends_X, whole)


def grouped_products(rows_QI: Tensor, weight_XOI: Tensor, ends_X: Tensor, whole: bool) -> Tensor:
    """One call to whoever watches calls of torch: which products it makes depends on the routing."""
    if has_torch_function((rows_QI, weight_XOI, ends_X)):
        made: Tensor = handle_torch_function(
            grouped_products, (rows_QI, weight_XOI, ends_X), rows_QI, weight_XOI, ends_X, whole
        )
        return made
    outputs = weight_XOI.shape[1]
    if _fits_torch(rows_QI):
        weight_XIO, more = weight_XOI.transpose(1, 2), (0, _missing(weight_XOI[0].T), 0, _missing(rows_QI))
        if any(more):
            weight_XIO = F.pad(weight_XIO, more)
        y_QO = F.grouped_mm(_aligned(rows_QI), weight_XIO, offs=ends_X.int())[:, :outputs].contiguous()
        # torch leaves the other rows undefined, even NaN.
        return y_QO if whole else y_QO.masked_fill(_after(ends_X, len(rows_QI)), 0)
    return one_by_one(rows_QI, weight_XOI, ends_X, whole)


def one_by_one(rows_QI: Tensor, weight_XOI: Tensor, ends_X: Tensor, whole: bool) -> Tensor:
    """The product of each group that has rows, one after the other."""
    y_QO = rows_QI.new_empty(len(rows_QI), weight_XOI.shape[1])
    for x, start, stop in groups_with_rows(ends_X):
        y_QO[start:stop] = F.linear(rows_QI[start:stop], weight_XOI[x])
    return y_QO if whole else y_QO.masked_fill_(_after(ends_X, len(rows_QI)), 0)


@torch.library.custom_op("anyformer::grouped_outer_product", mutates_args=())
def _outer(y_QO: Tensor, rows_QI: Tensor, ends_X: Tensor) -> Tensor:
    """(Q, O), (Q, I) -> (X, O, I): the sum over each group's rows of y row^T."""
    outputs, inputs = y_QO.shape[1], rows_QI.shape[1]
    if _fits_torch(rows_QI):
        return F.grouped_mm(_aligned(y_QO).T, _aligned(rows_QI), offs=ends_X.int())[:, :outputs, :inputs].contiguous()
    weight_XOI = rows_QI.new_zeros(len(ends_X), outputs, inputs)
    for x, start, stop in groups_with_rows(ends_X):
        torch.mm(y_QO[start:stop].T, rows_QI[start:stop], out=weight_XOI[x])
    return weight_XOI


PRODUCT = torch.ops.anyformer.grouped_product.default
"""The operator under which dispatch modes (FLOP counters, tracers) meet it."""


@_product.register_fake
def _(rows_QI: Tensor, weight_XOI: Tensor, ends_X: Tensor, whole: bool) -> Tensor:
    return rows_QI.new_empty(rows_QI.shape[0], weight_XOI.shape[1])


@_outer.register_fake
def _(y_QO: Tensor, rows_QI: Tensor, ends_X: Tensor) -> Tensor:
    return rows_QI.new_empty(ends_X.shape[0], y_QO.shape[1], rows_QI.shape[1])


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: Tensor) -> None:
    *tensors, ctx.whole = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient_QO: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
    rows_QI, weight_XOI, ends_X = ctx.saved_tensors
    needs_rows, needs_weight, *_ = ctx.needs_input_grad
    rows = _product(gradient_QO, weight_XOI.transpose(1, 2), ends_X, ctx.whole) if needs_rows else None
    return rows, _outer(gradient_QO, rows_QI, ends_X) if needs_weight else None, None, None


_product.register_autograd(_backward, setup_context=_save)


def _fits_torch(rows: Tensor) -> bool:
    """Whether torch's grouped product fits: it then runs on the device without waiting for the sizes."""
    return rows.is_cuda and rows.dtype == torch.bfloat16


def _after(ends_X: Tensor, rows: int) -> Tensor:
    """(Q, 1): the rows after the last group."""
    return (torch.arange(rows, device=ends_X.device) >= ends_X[-1])[:, None]


def _missing(x: Tensor) -> int:
    """Columns to add so that a row is a multiple of 16 bytes, as torch's grouped product requires."""
    return -x.shape[-1] % (16 // x.element_size())


def _aligned(x: Tensor) -> Tensor:
    missing = _missing(x)
    return F.pad(x, (0, missing)) if missing else x.contiguous()


def groups_with_rows(ends_X: Tensor) -> list[tuple[int, int, int]]:
    """(x, start, stop) of every group with rows: with few tokens most have none, and an empty product costs a call."""
    ends = ends_X.tolist()
    return [(x, start, stop) for x, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)) if start < stop]
