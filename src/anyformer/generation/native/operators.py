"""Torch's operators as operations of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.captured import Operator
from anyformer.generation.native.table import Place, UnknownError, Word, Writer, float_word, joined, kind, spread, strides_of

Argument = Tensor | float | bool | int
Write = Callable[[Writer, dict[str, Any], Any], None]

ONE = ("copy", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "gelu", "gelu_tanh", "tanh", "relu",
       "softplus", "abs", "sin", "cos", "logical_not", "log1p", "floor", "sign", "erf", "expm1", "log_sigmoid")  # fmt: skip
"""Functions of one number, as `Function` of `elementwise.h` counts them."""
TWO = ("add", "sub", "mul", "div", "pow", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor",
       "remainder", "floor_divide")  # fmt: skip
"""Functions of two, which are counted from 32."""
FUNCTIONS = {name: number for number, name in enumerate(ONE)} | {name: 32 + number for number, name in enumerate(TWO)}
FUNCTIONS |= {"where": 64, "add_product": 65}
REDUCTIONS = ("sum", "mean", "amax", "amin", "argmax", "argmin", "any", "all", "norm")
ROWS = ("softmax", "log_softmax", "rms_norm", "layer_norm", "cumsum")
FLOATING = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "gelu", "gelu_tanh", "tanh", "softplus", "sin",
            "cos", "log1p", "erf", "expm1", "log_sigmoid", "div")  # fmt: skip
"""Functions whose result is no whole number even where all that they take are."""


def elementwise(writer: Writer, name: str, out: Tensor, *inputs: Argument) -> None:
    """A function of the numbers at the same place."""
    fractions = any(each.is_floating_point() if isinstance(each, Tensor) else isinstance(each, float) for each in inputs)
    whole = not fractions and not out.is_floating_point() and name not in FLOATING
    tensors: list[tuple[Place, Tensor | None]] = [(writer.place(out), out)]
    for each in inputs:
        if isinstance(each, Tensor):
            tensors.append((writer.place(each), each))
        else:
            tensors.append((writer.constant(each, whole=whole), None))
    writer.elementwise(FUNCTIONS[name], tuple(out.shape), tensors, whole=whole)


def copied(writer: Writer, out: Tensor, source: Argument) -> None:
    """Numbers of one tensor, converted to those of another."""
    elementwise(writer, "copy", out, source)


def _unary(name: str, key: str = "self") -> Write:
    return lambda writer, given, out: elementwise(writer, name, out, given[key])


def _binary(name: str) -> Write:
    def write(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
        first, second = given["self"], given["other"]
        alpha = given.get("alpha", 1)
        if alpha == 1:
            return elementwise(writer, name, out, first, second)
        if name not in ("add", "sub"):
            raise UnknownError(f"{name} with a factor")
        return elementwise(writer, "add_product", out, first, second, float(alpha if name == "add" else -alpha))

    return write


def _power(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "pow", out, given["self"], given["exponent"])


def _divided(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    mode = given.get("rounding_mode")
    if mode not in (None, "floor"):
        raise UnknownError(f"division rounded by {mode}")
    elementwise(writer, "floor_divide" if mode else "div", out, given["self"], given["other"])


def _less(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    if given.get("alpha", 1) != 1:
        raise UnknownError("rsub with a factor")
    elementwise(writer, "sub", out, given["other"], given["self"])


def _gelu(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "gelu_tanh" if given["approximate"] == "tanh" else "gelu", out, given["self"])


def _softplus(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    if (given["beta"], given["threshold"]) != (1, 20):
        raise UnknownError("softplus with another slope")
    elementwise(writer, "softplus", out, given["self"])


def _clamped(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    low, high, source = given.get("min"), given.get("max"), given["self"]
    if low is not None:
        elementwise(writer, "maximum", out, source, low)
        source = out
    if high is not None:
        elementwise(writer, "minimum", out, source, high)


def _where(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "where", out, given["condition"], given["self"], given["other"])


def _masked(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "where", out, given["mask"], given["value"], given["self"])


def _added_product(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    if given["value"] != 1:
        raise UnknownError("addcmul with a factor")
    elementwise(writer, "add_product", out, given["self"], given["tensor1"], given["tensor2"])


def _filled(value: float | None = None) -> Write:
    def write(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
        found = given.get("fill_value", given.get("value")) if value is None else value
        copied(writer, out, found)

    return write


def _copied_to(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    copied(writer, given["self"], given["src"])


def _reduced(name: str) -> Write:
    def write(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
        source = given["self"]
        dims = given.get("dim")
        gone = {d % source.dim() for d in ([dims] if isinstance(dims, int) else dims)} if dims else set(range(source.dim()))
        if isinstance(dims, int):
            gone = {dims % source.dim()}
        if name == "norm" and given.get("ord", given.get("p")) != 2:
            raise UnknownError("a norm that is not the Euclidean one")
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


def rows(writer: Writer, name: str, out: Tensor, source: Tensor, *, dim: int = -1, epsilon: float = 0.0,
         weight: Tensor | None = None, bias: Tensor | None = None) -> None:  # fmt: skip
    """A function of whole rows along a size."""
    given = [each for each in (weight, bias) if each is not None]
    x, y = source.movedim(dim, -1), out.movedim(dim, -1)
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
    def write(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
        rows(writer, name, out, given["self"], dim=given["dim"])

    return write


def _running(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    rows(writer, "cumsum", out, given["self"], dim=given["dim"])


def _layer_norm(writer: Writer, given: dict[str, Any], out: Any) -> None:
    if len(given["normalized_shape"]) != 1:
        raise UnknownError("a norm over several sizes")
    result = out if isinstance(out, Tensor) else out[0]
    rows(writer, "layer_norm", result, given["input"], epsilon=given["eps"], weight=given["weight"], bias=given["bias"])


def _rms_norm(writer: Writer, given: dict[str, Any], out: Any) -> None:
    if len(given["normalized_shape"]) != 1:
        raise UnknownError("a norm over several sizes")
    result = out if isinstance(out, Tensor) else out[0]
    epsilon = torch.finfo(given["input"].dtype).eps if given["eps"] is None else given["eps"]
    rows(writer, "rms_norm", result, given["input"], epsilon=epsilon, weight=given["weight"])


def _ordered(writer: Writer, source: Tensor, dim: int, count: int, places: Tensor, values: Tensor | None, *,
             largest: bool) -> None:  # fmt: skip
    if source.dtype == torch.int64 or source.dim() == 0:
        raise UnknownError("an order of whole numbers")
    tensors = [places, source, *([] if values is None else [values])]
    turned = [each.movedim(dim, -1) for each in tensors]
    words: list[Word] = [int(largest), count, int(values is not None), source.dim(), *turned[1].shape]
    for each in turned:
        words += [writer.place(each), kind(each), *strides_of(each)]
    writer.put("order", words)


def _sorted(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    _ordered(writer, given["self"], given["dim"], out.shape[given["dim"]], out, None, largest=given["descending"])


def _most(writer: Writer, given: dict[str, Any], out: tuple[Tensor, Tensor]) -> None:
    values, places = out
    _ordered(writer, given["self"], given["dim"], given["k"], places, values, largest=given["largest"])


def _concatenated(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    tensors, dim = given["tensors"], given["dim"]
    start = 0
    for each in tensors:
        if each.numel():
            copied(writer, out.narrow(dim, start, each.shape[dim]), each)
            start += each.shape[dim]


def _stacked(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    for number, each in enumerate(given["tensors"]):
        copied(writer, out.select(given["dim"], number), each)


def _reshaped(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    copied(writer, out.view(given["self"].shape), given["self"])


def _squared(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "mul", out, given["self"], given["self"])


def _repeated(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    source, repeats, dim = given["self"], given["repeats"], given["dim"]
    if not isinstance(repeats, int) or dim is None:
        raise UnknownError("numbers repeated unequally")
    dim %= source.dim()
    copied(writer, out.unflatten(dim, (source.shape[dim], repeats)), source.unsqueeze(dim + 1))


def _padded(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    source, inside = given["self"], out
    if given.get("mode", "constant") != "constant":
        raise UnknownError("a padding by other numbers")
    copied(writer, out, given["value"] or 0)
    for d, (before, after) in enumerate(zip(given["pad"][::2], given["pad"][1::2], strict=True)):
        if before < 0 or after < 0:
            raise UnknownError("a padding that cuts")
        inside = inside.narrow(-1 - d, before, source.shape[-1 - d])
    copied(writer, inside, source)


def indexed(writer: Writer, out: Tensor, source: Tensor, shape: Sequence[int], indices: Sequence[tuple[int, int, Tensor]],
            *, writes: bool, adds: bool = False) -> None:  # fmt: skip
    """Numbers of `source` at the places that indices name, or written to those of `out`; `out`, `source`: repeated to `shape`.

    An index: bytes from a place to the next, how many there are, and the numbers of places.
    """
    tensors = [out, source, *(each for *_, each in indices)]
    sizes, strides = joined(shape, [spread(each, shape) for each in tensors])
    words: list[Word] = [int(writes), int(adds), len(sizes), len(indices), *sizes]
    for number, (tensor, own) in enumerate(zip(tensors, strides, strict=True)):
        if number >= 2:
            words += indices[number - 2][:2]
        words += [writer.place(tensor), kind(tensor), *own]
    if len(indices) > 2:
        raise UnknownError(f"{len(indices)} indices")
    writer.put("indexed", words)


def _still(tensor: Tensor, dim: int, size: int) -> Tensor:
    """A tensor that does not move along a size."""
    return tensor.select(dim, 0).unsqueeze(dim).expand(*(size if d == dim else each for d, each in enumerate(tensor.shape)))


def _along(tensor: Tensor, index: Tensor, dim: int) -> tuple[int, int, Tensor]:
    return strides_of(tensor)[dim], tensor.shape[dim], index


def _selected(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    source, dim, index = given["self"], given["dim"] % given["self"].dim(), given["index"]
    wide = index.view(-1, *[1] * (source.dim() - dim - 1))
    indexed(writer, out, _still(source, dim, out.shape[dim]), out.shape, [_along(source, wide, dim)], writes=False)


def _looked_up(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    table, index = given["weight"], given["indices"]
    source = table[0].expand(out.shape)
    indexed(writer, out, source, out.shape, [_along(table, index.unsqueeze(-1), 0)], writes=False)


def _gathered(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    source, dim, index = given["self"], given["dim"] % max(given["self"].dim(), 1), given["index"]
    begin = source[tuple(slice(None) if d == dim else slice(0, size) for d, size in enumerate(index.shape))]
    indexed(writer, out, _still(begin, dim, index.shape[dim]), out.shape, [_along(source, index, dim)], writes=False)


def _at(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    """x[i, j]: indices of the first sizes alone, or of one."""
    source = given["self"]
    named = [(d, index) for d, index in enumerate(given["indices"]) if index is not None]
    dims = [d for d, _ in named]
    if any(index.dtype == torch.bool for _, index in named) or dims != list(range(dims[0], dims[0] + len(dims))):
        raise UnknownError("indices by a mask, or apart")
    first, behind = dims[0], source.dim() - dims[-1] - 1
    base = source
    for d in reversed(dims):
        base = base.select(d, 0)
    shape = torch.broadcast_shapes(*(index.shape for _, index in named))
    base = base.view_as(base)[(slice(None),) * first + (None,) * len(shape)] if shape else base
    each = [_along(source, index.view(*index.shape, *[1] * behind), d) for d, index in named]
    indexed(writer, out, base.expand(out.shape), out.shape, each, writes=False)


def _written(key: str = "source") -> Write:
    def write(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
        goal, dim, index, source = given["self"], given["dim"] % given["self"].dim(), given["index"], given[key]
        wide = index.view(-1, *[1] * (goal.dim() - dim - 1))
        shape = source.shape
        indexed(writer, _still(goal, dim, shape[dim]), source, shape, [_along(goal, wide, dim)], writes=True)

    return write


def _put(writer: Writer, given: dict[str, Any], out: Tensor) -> None:
    """x[i] = y, of an index of one size."""
    goal, source = given["self"], given["values"]
    named = [(d, index) for d, index in enumerate(given["indices"]) if index is not None]
    if len(named) != 1 or named[0][1].dtype == torch.bool or named[0][1].dim() != 1:
        raise UnknownError("numbers written to several indices")
    ((dim, index),) = named
    wide = index.view(-1, *[1] * (goal.dim() - dim - 1))
    shape = [len(index) if d == dim else size for d, size in enumerate(goal.shape)]
    indexed(writer, _still(goal, dim, len(index)), source.expand(shape), shape, [_along(goal, wide, dim)], writes=True,
            adds=given["accumulate"])  # fmt: skip


WRITES: Mapping[str, Write] = {
    **{f"aten::{name}": _unary(name) for name in ("neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "tanh",
       "relu", "abs", "sin", "cos", "logical_not", "log1p", "floor", "sign", "erf", "expm1", "log_sigmoid")},
    **{f"aten::{name}": _binary(name) for name in ("add", "sub", "mul", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge",
       "remainder", "floor_divide")},
    **{f"aten::{kind}_{name}": _binary(name) for kind in ("bitwise", "logical") for name in ("and", "or", "xor")},
    **{f"aten::__{name}__": _binary(name) for name in ("and", "or", "xor")},
    **{f"aten::{name}": _reduced(name) for name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "any", "all")},
    **dict.fromkeys(("aten::_to_copy", "aten::clone", "aten::to", "aten::contiguous", "aten::type_as"), _unary("copy")),
    **dict.fromkeys(("aten::reshape", "aten::flatten"), _reshaped),
    "aten::square": _squared, "aten::stack": _stacked, "aten::repeat_interleave": _repeated,
    **dict.fromkeys(("aten::full", "aten::full_like", "aten::fill", "aten::new_full"), _filled()),
    **dict.fromkeys(("aten::zeros", "aten::zeros_like", "aten::zero", "aten::new_zeros"), _filled(0)),
    **dict.fromkeys(("aten::ones", "aten::ones_like", "aten::new_ones"), _filled(1)),
    **{f"aten::{name}": _soft(name.strip("_")) for name in ("softmax", "log_softmax", "_softmax", "_log_softmax")},
    "aten::bitwise_not": _unary("logical_not"), "aten::pow": _power, "aten::div": _divided, "aten::rsub": _less,
    "aten::gelu": _gelu, "aten::softplus": _softplus, "aten::clamp": _clamped, "aten::clamp_min": _clamped,
    "aten::clamp_max": _clamped, "aten::where": _where, "aten::masked_fill": _masked, "aten::addcmul": _added_product,
    "aten::copy": _copied_to, "aten::linalg_vector_norm": _reduced("norm"), "aten::cumsum": _running,
    "aten::native_layer_norm": _layer_norm, "aten::layer_norm": _layer_norm, "aten::_fused_rms_norm": _rms_norm, "aten::rms_norm": _rms_norm,
    "aten::cat": _concatenated, "aten::constant_pad_nd": _padded, "aten::pad": _padded, "aten::argsort": _sorted,
    "aten::topk": _most, "aten::index_select": _selected,
    "aten::embedding": _looked_up, "aten::gather": _gathered, "aten::index": _at, "aten::index_copy": _written(),
    "aten::index_put": _put,
}  # fmt: skip
"""What each operator puts down."""
CONSTANT = frozenset({"aten::arange", "aten::scalar_tensor", "aten::lift_fresh", "aten::eye", "aten::linspace"})
"""Operators that give the same numbers in every step."""
NOTHING = frozenset(
    {"aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::detach", "aten::alias"}
)
"""Operators that compute no number."""
