"""Torch's products of matrices, and attention, as operations of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product as product_of
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.captured import captured
from anyformer.generation.native.functions import Write, elementwise
from anyformer.generation.native.orders import FEW_BITS, ROWS, Order, onednn_order
from anyformer.generation.native.table import KINDS, Location, StepWriter, UnknownError, Word, float_word, kind
from anyformer.quantising.tensor import PackedMatrix


def product(
    writer: StepWriter, out: Tensor, x: Tensor, order: Order, outputs: int, weight: Location, scales: Location | None = None
) -> None:
    """x W^T, of a matrix in some order."""
    inputs, stored = x.shape[-1], writer.stored(x)
    x = stored if _one_row(stored) else x
    if not _one_row(x) or not _one_row(out):  # rows that lie apart
        for some, of in zip(out, x, strict=True):
            product(writer, some, of, order, outputs, weight, scales)
        return
    words: list[Word] = [*order, x.numel() // inputs, outputs, inputs, weight, *([] if scales is None else [scales])]
    for tensor in (x, out):
        by_row = tensor.stride(-2) if tensor.dim() > 1 else 0
        size = tensor.element_size()
        words += [writer.place(tensor), kind(tensor), by_row * size, tensor.stride(-1) * size]
    writer.put("product", words)


def _one_row(x: Tensor) -> bool:
    """Whether all sizes but the last can be walked as one, by the stride of the second last."""
    return x.dim() < 3 or x.shape[:-2].numel() == 1 or x.is_contiguous()


def _onednn(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    if given["B"] is not None or given["attr"] != "none":
        raise UnknownError("a product with something behind it")
    order, place = _of_onednn(writer, given["W"])
    product(writer, out, given["X"], order, len(given["W"]), place)


def _of_onednn(writer: StepWriter, weight: Tensor) -> tuple[Order, Location]:
    order = onednn_order(*weight.shape, weight.dtype)
    if order is None:
        raise UnknownError(f"oneDNN's order of {tuple(weight.shape)}")
    return order, writer.opaque(weight, torch.ops.mkldnn.data_ptr(weight))


def _few_bits(name: str) -> Write:
    def put(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
        order, codes, scales = FEW_BITS[name](given)
        product(writer, out, given["self"], order, out.shape[-1], writer.place(codes), writer.place(scales))

    return put


def _matrix_product(writer: StepWriter, out: Tensor, a: Tensor, w: Tensor, c: Tensor | None = None, factor: float = 1.0,
                    other: float = 1.0) -> None:  # fmt: skip
    """factor a w + other c, of batches (batch, row, depth) and (batch, depth, column)."""
    batch, row, depth = a.shape
    a, w = writer.stored(a), writer.stored(w)
    by_rows = batch == 1 and w.stride()[1:] == (1, depth) and w.dtype in (torch.float32, torch.bfloat16)
    if by_rows and c is None and factor == 1:
        product(writer, out[0], a[0], Order(ROWS, kind(w)), w.shape[2], writer.place(w))
        return
    words: list[Word] = [batch, row, w.shape[2], depth, int(c is not None), float_word(factor), float_word(other)]
    for each in (out, a, w, *([] if c is None else [c])):
        words += writer.strided(each)
    writer.put("matrix product", words)


def _batches(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    _matrix_product(writer, out, given["self"], given["mat2"])


def _added_batches(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    added = given["self"].expand(out.shape)
    _matrix_product(writer, out, given["batch1"], given["batch2"], added, float(given["alpha"]), float(given["beta"]))


def _single(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    _matrix_product(writer, out[None], given["self"][None], given["mat2"][None])


def _added_single(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    added = given["self"].expand(out.shape)[None]
    _matrix_product(
        writer, out[None], given["mat1"][None], given["mat2"][None], added, float(given["alpha"]), float(given["beta"])
    )


def _by_vector(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    _matrix_product(writer, out[None, None], given["vec"][None, None], given["self"].t()[None])


def _dot(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    _matrix_product(writer, out[None, None, None], given["self"][None, None], given["tensor"][None, :, None])


def _linear(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    """x W^T + b by a matrix whose rows lie side by side, read as it is stored: torch would copy it to fp32 in every step."""
    x, weight, bias = given["input"], writer.stored(given["weight"]), given["bias"]
    if weight.dim() != 2 or not weight.is_contiguous() or weight.dtype not in (torch.float32, torch.bfloat16):
        raise UnknownError("a linear map by a matrix whose rows lie apart")
    product(writer, out, x, Order(ROWS, kind(weight)), len(weight), writer.place(weight))
    if bias is not None:
        elementwise(writer, "add", out, out, bias)


def _multiplied(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    """Products of matrices whose batches, but for one number of them, have one size each."""
    a, w = given["self"], given["other"]
    if a.dim() < 2 or w.dim() < 2:
        raise UnknownError("a product with a vector")
    several = [d for d, size in enumerate(out.shape[:-2]) if size > 1]
    batch = [out.shape[d] for d in several]
    a, w, out = (_of_sizes(x.expand(*out.shape[:-2], *x.shape[-2:]), several) for x in (a, w, out))
    if not batch:
        _matrix_product(writer, out[None], a[None], w[None])
    elif len(batch) == 2 and out.shape[-2] == 1 and w.stride(0) == 0:
        _matrix_product(writer, out.transpose(0, 2)[0], a.transpose(0, 2)[0], w[0])  # matrices that all texts share: read once
    else:
        for index in product_of(*map(range, batch[:-1])):
            _matrix_product(writer, out[index], a[index], w[index])


def _of_sizes(x: Tensor, dims: list[int]) -> Tensor:
    """A batch of matrices (*batch, row, column) without the other sizes of the batch, which are 1."""
    return x.as_strided([*(x.shape[d] for d in dims), *x.shape[-2:]], [*(x.stride(d) for d in dims), *x.stride()[-2:]])


def _one_of(writer: StepWriter, several: PackedMatrix, number: int) -> tuple[Order, torch.dtype, list[Location]]:
    """One matrix of several: its order, the type that it multiplies, and where its numbers and scales lie."""
    codes = (several.format.one(several.planes, number) or {}).get("codes")
    if codes is not None and codes.is_floating_point():
        if codes.is_mkldnn:
            order, place = _of_onednn(writer, codes)
            return order, codes.dtype, [place]
        return Order(ROWS, kind(codes)), codes.dtype, [_known(writer, codes)]
    made = several.one_product(number)
    if made is None:
        raise UnknownError("experts in few bits without a kernel")
    row = torch.zeros(1, several.shape[-1], dtype=made.dtype)
    with captured(FEW_BITS) as operators:
        made.few(row)
    if [each.name in FEW_BITS for each in operators] != [True]:
        raise UnknownError("experts in few bits whose product is several operators")
    order, *tensors = FEW_BITS[operators[0].name](operators[0].arguments)
    return order, made.dtype, [_known(writer, tensor) for tensor in tensors]


def _known(writer: StepWriter, tensor: Tensor) -> Location:
    """The place of what a step reads and a call inside one of its operators may have made."""
    if not writer.knows(tensor):
        writer.hold(tensor, tensor)
    return writer.place(tensor)


def _chosen(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    """The product of each row with the matrix of its number."""
    rows, weight, expert = given["rows"], given["weight"], given["choice"]
    matrices = list[Location]()
    if isinstance(weight, PackedMatrix):
        orders = set[Order]()
        for x in range(len(weight)):
            order, rounded, places = _one_of(writer, weight, x)
            orders.add(order)
            matrices += places
        (order,) = orders
    else:
        if not weight.is_contiguous() or weight.dtype not in (torch.float32, torch.bfloat16):
            raise UnknownError("experts whose rows lie apart")
        order, rounded = Order(ROWS, kind(weight)), weight.dtype
        matrices = [writer.place(one) for one in weight]
    sizes = [len(rows), weight.shape[1], rows.shape[1], len(weight)]
    writer.put("chosen product", order, sizes, KINDS[rounded], 1, writer.strided(expert), writer.strided(rows), matrices,
               writer.strided(out))  # fmt: skip


def _attention(writer: StepWriter, given: dict[str, Any], out: Any) -> None:
    (q, k, v), mask = map(writer.stored, (given["query"], given["key"], given["value"])), given["attn_mask"]
    mixed = out if isinstance(out, Tensor) else out[0]
    if given["dropout_p"] or (given["is_causal"] and q.shape[2] > 1):
        raise UnknownError("attention with dropout, or of several causal queries")
    if k.stride(-1) != 1 or v.stride(-1) != 1 or not {k.dtype, v.dtype} <= {torch.float32, torch.bfloat16}:
        raise UnknownError("attention to keys whose features lie apart")
    scale = given.get("scale")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if q.dim() != 4:
        raise UnknownError("attention without rows or heads")
    rows, heads, queries, width = q.shape
    shape = (rows, heads, queries, k.shape[2])
    seen = mask is not None
    sizes = [rows, heads, heads // k.shape[1], queries, k.shape[2], width, v.shape[3]]
    words: list[Word] = [*sizes, int(seen), float_word(factor)]
    tensors = [mixed, q, k, v, *([mask.expand(shape)] if seen else [])]
    for each in tensors:
        words += writer.strided(each)
    writer.put("attention", words)


MATRICES: Mapping[str, Write] = {
    "mkldnn::_linear_pointwise": _onednn,
    "aten::linear": _linear,
    "aten::matmul": _multiplied,
    **{name: _few_bits(name) for name in FEW_BITS},
    "chosen_product": _chosen,
    "aten::bmm": _batches,
    "aten::baddbmm": _added_batches,
    "aten::mm": _single,
    "aten::addmm": _added_single,
    "aten::mv": _by_vector,
    "aten::dot": _dot,
    "aten::scaled_dot_product_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_attention_math": _attention,
}
"""What each operator of matrices puts down."""
