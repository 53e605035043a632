"""Torch's operators that read whole rows, as operations of a table: sums, softmax, norms, orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.functions import Write
from anyformer.generation.native.table import (
    StepWriter,
    UnknownError,
    Word,
    float_word,
    joined,
    kind,
    spread,
    strides_of,
)

REDUCTIONS = ("sum", "mean", "amax", "amin", "argmax", "argmin", "any", "all", "norm")
"""As `Reduction` of `rows.h` counts them."""
ROWS = ("softmax", "log_softmax", "rms_norm", "layer_norm", "cumsum")
"""As `RowFunction` of `rows.h` counts them."""


def _reduced(name: str) -> Write:
    def write(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
        source = given["self"]
        dims = given.get("dim")
        gone = {d % source.dim() for d in ([dims] if isinstance(dims, int) else dims)} if dims else set(range(source.dim()))
        if isinstance(dims, int):
            gone = {dims % source.dim()}
        order = [d for d in range(source.dim()) if d not in gone] + sorted(gone)
        x = source.permute(order)
        kept = len(order) - len(gone)
        y = out.squeeze(tuple(gone)) if out.dim() == source.dim() and source.dim() else out
        whole = not source.is_floating_point() and not out.is_floating_point()
        sizes, strides = list(x.shape), [strides_of(y) + [0] * len(gone), strides_of(x)]
        if len(sizes) > 6 or not gone:
            raise UnknownError(f"a sum over {len(gone)} of {len(sizes)} sizes")
        words: list[Word] = [REDUCTIONS.index(name), int(whole), kept, len(gone), *sizes]
        for tensor, own in zip((y, x), strides, strict=True):
            words += [writer.place(tensor), kind(tensor), *own]
        writer.put("reduction", words)

    return write


def _length(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    if given["ord"] != 2:
        raise UnknownError("a norm that is not the Euclidean one")
    _reduced("norm")(writer, given, out)


def rows(writer: StepWriter, name: str, out: Tensor, source: Tensor, *, dim: int = -1, epsilon: float = 0.0,
         weight: Tensor | None = None, bias: Tensor | None = None) -> None:  # fmt: skip
    """A function of whole rows along a size."""
    given = [each for each in (weight, bias) if each is not None]
    x, y = writer.stored(source).movedim(dim, -1), out.movedim(dim, -1)
    if any(each.dim() != 1 for each in given):
        raise UnknownError("a norm over several sizes")
    tensors = [y, x, *given]
    sizes, strides = joined(x.shape, [spread(each, x.shape) for each in tensors], apart=1)
    words: list[Word] = [
        ROWS.index(name),
        float_word(epsilon),
        int(weight is not None),
        int(bias is not None),
        len(sizes),
        *sizes,
    ]
    for tensor, own in zip(tensors, strides, strict=True):
        words += [writer.place(tensor), kind(tensor), *own]
    writer.put("rows", words)


def _soft(name: str) -> Write:
    def write(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
        rows(writer, name, out, given["self"], dim=given["dim"])

    return write


def _running(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    rows(writer, "cumsum", out, given["self"], dim=given["dim"])


def _layer_norm(writer: StepWriter, given: dict[str, Any], out: Any) -> None:
    if len(given["normalized_shape"]) != 1:
        raise UnknownError("a norm over several sizes")
    result = out if isinstance(out, Tensor) else out[0]
    rows(writer, "layer_norm", result, given["input"], epsilon=given["eps"], weight=given["weight"], bias=given["bias"])


def _rms_norm(writer: StepWriter, given: dict[str, Any], out: Any) -> None:
    if len(given["normalized_shape"]) != 1:
        raise UnknownError("a norm over several sizes")
    result = out if isinstance(out, Tensor) else out[0]
    epsilon = torch.finfo(given["input"].dtype).eps if given["eps"] is None else given["eps"]
    rows(writer, "rms_norm", result, given["input"], epsilon=epsilon, weight=given["weight"])


def _ordered(writer: StepWriter, source: Tensor, dim: int, count: int, places: Tensor, values: Tensor | None, *,
             largest: bool) -> None:  # fmt: skip
    if source.dtype == torch.int64 or source.dim() == 0:
        raise UnknownError("an order of whole numbers")
    tensors = [places, source, *([] if values is None else [values])]
    turned = [each.movedim(dim, -1) for each in tensors]
    words: list[Word] = [int(largest), count, int(values is not None), source.dim(), *turned[1].shape]
    for each in turned:
        words += writer.strided(each)
    writer.put("order", words)


def _sorted(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    _ordered(writer, given["self"], given["dim"], out.shape[given["dim"]], out, None, largest=given["descending"])


def _most(writer: StepWriter, given: dict[str, Any], out: tuple[Tensor, Tensor]) -> None:
    values, places = out
    _ordered(writer, given["self"], given["dim"], given["k"], places, values, largest=given["largest"])


OF_ROWS: Mapping[str, Write] = {
    **{f"aten::{name}": _reduced(name) for name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "any", "all")},
    **{f"aten::{name}": _soft(name.strip("_")) for name in ("softmax", "log_softmax", "_softmax", "_log_softmax")},
    **dict.fromkeys(("aten::native_layer_norm", "aten::layer_norm"), _layer_norm),
    **dict.fromkeys(("aten::_fused_rms_norm", "aten::rms_norm"), _rms_norm),
    "aten::linalg_vector_norm": _length, "aten::cumsum": _running, "aten::argsort": _sorted, "aten::topk": _most,
}  # fmt: skip
"""What each operator puts down."""
