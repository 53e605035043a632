"""Operators of ours, and those that torch's exporter lacks, in operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anyformer.parts.experts.grouped import PRODUCT


def translations() -> dict[Any, Callable[..., Any]]:
    """Operator -> the function that writes it, for torch's `custom_translation_table`."""
    return {
        PRODUCT: _grouped_product,
        torch.ops.aten.sort.stable: _stable_sort,
        torch.ops.aten.searchsorted.Tensor: _places,
    }


def _stable_sort(x: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Values and places: TopK of all of them, which takes the lower place among equals, as a stable sort does."""
    from onnxscript import opset18 as op

    count = op.Reshape(op.Gather(op.Shape(x), op.Constant(value_int=dim), axis=0), op.Constant(value_ints=[1]))
    return op.TopK(x, count, axis=dim, largest=int(descending), sorted=1)


def _places(
    ordered_Q: Any, x_N: Any, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """(N,): how many of the ordered numbers come before x, with those equal to it on its `right`."""
    from onnxscript import opset18 as op

    ordered_1Q, x_N1 = (op.Unsqueeze(x, op.Constant(value_ints=[axis])) for x, axis in ((ordered_Q, 0), (x_N, 1)))
    before_NQ = (op.LessOrEqual if right or side == "right" else op.Less)(ordered_1Q, x_N1)
    return op.ReduceSum(op.Cast(before_NQ, to=7), op.Constant(value_ints=[1]), keepdims=0)  # 7: int64


def _grouped_product(rows_QI: Any, weight_XOI: Any, ends_X: Any, whole: bool) -> Any:
    """(Q, O): every expert's rows times its matrix; not `whole`, rows behind the last end are 0."""
    from onnxscript import opset18 as op

    from anyformer.exporting.loops import by_expert

    y_QO = by_expert(rows_QI, weight_XOI, ends_X)
    if whole:
        return y_QO
    missing = op.Sub(op.Shape(rows_QI, start=0, end=1), op.Shape(y_QO, start=0, end=1))
    shape = op.Concat(missing, op.Shape(weight_XOI, start=1, end=2), axis=0)
    return op.Concat(y_QO, op.CastLike(op.ConstantOfShape(shape), y_QO), axis=0)
