"""Torch's functions of numbers at the same place, as operations of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from anyformer.generation.native.table import Location, StepWriter, UnknownError

Argument = Tensor | float | bool | int
Write = Callable[[StepWriter, dict[str, Any], Any], None]
"""Puts an operator down: its arguments by name, and what it gives."""

ONE = ("copy", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "gelu", "gelu_tanh", "tanh", "relu",
       "softplus", "abs", "sin", "cos", "logical_not", "log1p", "floor", "sign", "erf", "expm1", "log_sigmoid", "acos",
       "ceil")  # fmt: skip
"""Functions of one number, as `Function` of `elementwise.h` counts them."""
TWO = ("add", "sub", "mul", "div", "pow", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor",
       "remainder", "floor_divide", "left", "right")  # fmt: skip
"""Functions of two, which are counted from 32."""
FUNCTIONS = {name: number for number, name in enumerate(ONE)} | {name: 32 + number for number, name in enumerate(TWO)}
FUNCTIONS |= {"where": 64, "add_product": 65}
FLOATING = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "gelu", "gelu_tanh", "tanh", "softplus", "sin",
            "cos", "log1p", "erf", "expm1", "log_sigmoid", "acos", "div")  # fmt: skip
"""Functions whose result is no whole number even where all that they take are."""


def elementwise(writer: StepWriter, name: str, out: Tensor, *inputs: Argument) -> None:
    """A function of the numbers at the same place."""
    fractions = any(each.is_floating_point() if isinstance(each, Tensor) else isinstance(each, float) for each in inputs)
    whole = not fractions and not out.is_floating_point() and name not in FLOATING
    tensors: list[tuple[Location, Tensor | None]] = [(writer.place(out), out)]
    for each in inputs:
        if isinstance(each, Tensor):
            own = writer.stored(each)
            tensors.append((writer.place(own), own))
        else:
            tensors.append((writer.constant(each, whole=whole), None))
    writer.elementwise(FUNCTIONS[name], tuple(out.shape), tensors, whole=whole)


def copied(writer: StepWriter, out: Tensor, source: Argument) -> None:
    """Numbers of one tensor, converted to those of another."""
    elementwise(writer, "copy", out, source)


def _unary(name: str, key: str = "self") -> Write:
    return lambda writer, given, out: elementwise(writer, name, out, given[key])


def _binary(name: str) -> Write:
    def write(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
        first, second = given["self"], given["other"]
        alpha = given.get("alpha", 1)
        if alpha == 1:
            return elementwise(writer, name, out, first, second)
        if name not in ("add", "sub"):
            raise UnknownError(f"{name} with a factor")
        return elementwise(writer, "add_product", out, first, second, float(alpha if name == "add" else -alpha))

    return write


def _power(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "pow", out, given["self"], given["exponent"])


def _divided(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    mode = given.get("rounding_mode")
    if mode not in (None, "floor"):
        raise UnknownError(f"division rounded by {mode}")
    elementwise(writer, "floor_divide" if mode else "div", out, given["self"], given["other"])


def _less(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    if given.get("alpha", 1) != 1:
        raise UnknownError("rsub with a factor")
    elementwise(writer, "sub", out, given["other"], given["self"])


def _gelu(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "gelu_tanh" if given["approximate"] == "tanh" else "gelu", out, given["self"])


def _softplus(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    if (given["beta"], given["threshold"]) != (1, 20):
        raise UnknownError("softplus with another slope")
    elementwise(writer, "softplus", out, given["self"])


def _clamped(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    low, high, source = given.get("min"), given.get("max"), given["self"]
    if low is not None:
        elementwise(writer, "maximum", out, source, low)
        source = out
    if high is not None:
        elementwise(writer, "minimum", out, source, high)


def _where(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "where", out, given["condition"], given["self"], given["other"])


def _masked(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "where", out, given["mask"], given["value"], given["self"])


def _added_product(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    if given["value"] != 1:
        raise UnknownError("addcmul with a factor")
    elementwise(writer, "add_product", out, given["self"], given["tensor1"], given["tensor2"])


def _squared(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    elementwise(writer, "mul", out, given["self"], given["self"])


def _filled(value: float | None = None) -> Write:
    def write(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
        copied(writer, out, given["fill_value" if "fill_value" in given else "value"] if value is None else value)

    return write


def _copied_to(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    copied(writer, out, given["src"])


OF_NUMBERS: Mapping[str, Write] = {
    **{f"aten::{name}": _unary(name) for name in ("neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "tanh",
       "relu", "abs", "sin", "cos", "logical_not", "log1p", "floor", "sign", "erf", "expm1", "log_sigmoid", "acos", "ceil")},
    **{f"aten::{name}": _binary(name) for name in ("add", "sub", "mul", "minimum", "maximum", "eq", "ne", "lt", "le", "gt",
       "ge", "remainder", "floor_divide")},
    **{f"aten::{kind}_{name}": _binary(name) for kind in ("bitwise", "logical") for name in ("and", "or", "xor")},
    **{f"aten::__{name}__": _binary(name) for name in ("and", "or", "xor")},
    **{f"aten::{way}": _binary("left") for way in ("bitwise_left_shift", "__lshift__")},
    **{f"aten::{way}": _binary("right") for way in ("bitwise_right_shift", "__rshift__")},
    **dict.fromkeys(("aten::_to_copy", "aten::clone", "aten::to", "aten::contiguous", "aten::type_as"), _unary("copy")),
    **dict.fromkeys(("aten::full", "aten::full_like", "aten::fill", "aten::new_full"), _filled()),
    **dict.fromkeys(("aten::zeros", "aten::zeros_like", "aten::zero", "aten::new_zeros"), _filled(0)),
    **dict.fromkeys(("aten::ones", "aten::ones_like", "aten::new_ones"), _filled(1)),
    **dict.fromkeys(("aten::clamp", "aten::clamp_min", "aten::clamp_max"), _clamped),
    "aten::bitwise_not": _unary("logical_not"), "aten::pow": _power, "aten::square": _squared, "aten::div": _divided,
    "aten::rsub": _less, "aten::gelu": _gelu, "aten::softplus": _softplus, "aten::where": _where, "aten::masked_fill": _masked,
    "aten::addcmul": _added_product, "aten::copy": _copied_to,
}  # fmt: skip
"""What each operator puts down."""
