"""A run of a decode step for its calls alone: which operators it takes, and in which memory, without most of their time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

LARGE = 2**16
"""Numbers of a tensor from which an operator may be left out: fewer are computed in the time of the call."""
Gives = Callable[[Any, dict[str, Any]], Any]
"""Something of the sizes and strides of what an operator gives, from the operator and its arguments by name."""


@contextmanager
def rehearsed(lasting: Iterable[Tensor]) -> Iterator[None]:
    """Inside, products and copies of large tensors of `lasting` memory, such as keys and values, are not computed; at the end
    that memory holds what it held before.

    A step takes the same operators whatever its numbers are, so what is recorded of it inside holds for any; behind a long
    prompt torch would spend seconds on copies of all keys and values. No result is of use.
    """
    lasting = list(lasting)
    large = [tensor for tensor in lasting if _is_large(tensor)]
    before = [(tensor, tensor.clone()) for tensor in lasting if not _is_large(tensor)]
    try:
        with _Rehearsal(large):
            yield
    finally:
        for tensor, value in before:
            tensor.copy_(value)


class _Rehearsal(TorchDispatchMode):
    """Inside, nothing is written to `lasting` memory, and operators of `GIVES` do not compute with it."""

    def __init__(self, lasting: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lasting = frozenset(filter(None, map(_memory, lasting)))
        self._made = dict[int, Tensor]()
        """What was not computed, by its place in memory: kept, since memory that is gone may be given to others."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler, which takes a second, to keep that from looking in here

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, schema = kwargs or {}, func._schema
        if not (schema.is_mutable or schema.name in PRODUCTS or any(map(self._is_unread, _tensors(args)))):
            return func(*args, **kwargs)
        given = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
        given |= {each.name: value for each, value in zip(schema.arguments, args, strict=False)} | kwargs
        written = [given[each.name] for each in schema.arguments if each.alias_info and each.alias_info.is_write]
        if written and all(_memory(tensor) in self._lasting for tensor in _tensors(written)):
            return written[0] if len(schema.returns) == 1 else tuple(written)
        if schema.name in GIVES:
            made = GIVES[schema.name](func, given)
            self._made |= {_memory(tensor): tensor for tensor in _tensors([made])}
            return made
        with self:  # an operator that is made of others is these
            made = func.decompose(*args, **kwargs)
        return func(*args, **kwargs) if made is NotImplemented else made

    def _is_unread(self, tensor: Tensor) -> bool:
        return _is_large(tensor) and ((place := _memory(tensor)) in self._lasting or place in self._made)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments of an operator, also those in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _is_large(tensor: Tensor) -> bool:
    """Whole numbers are always computed: some are places in memory."""
    return tensor.numel() >= LARGE and tensor.is_floating_point()


def _memory(tensor: Tensor) -> int:
    """Where a tensor's numbers lie; 0 where they lie in an order of a kernel's own, or there are none."""
    plain = type(tensor) in (Tensor, nn.Parameter) and tensor.layout == torch.strided
    return tensor.untyped_storage().data_ptr() if plain else 0


def _zeros(shape: Iterable[int], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Zeros on the device of another tensor; of many of them no page of memory is touched."""
    shape, dtype = tuple(shape), dtype or like.dtype
    if like.device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=like.device)
    numbers = numpy.zeros(max(1, math.prod(shape)) * dtype.itemsize, dtype=numpy.uint8)
    return torch.from_numpy(numbers).view(dtype)[: math.prod(shape)].view(shape)


def _copied(func: Any, given: dict[str, Any]) -> Tensor:
    """As many zeros as a tensor has numbers, in the order in which these lie."""
    source, strides = given["self"], torch.empty_like(given["self"], memory_format=given["memory_format"]).stride()
    return _zeros([source.numel()], source, given.get("dtype")).as_strided(source.shape, strides)


def _joined(func: Any, given: dict[str, Any]) -> Tensor:
    """Tensors one behind the other along one size."""
    tensors, dim = given["tensors"], given["dim"]
    shape = list(tensors[0].shape)
    shape[dim] = sum(each.shape[dim] for each in tensors)
    return _zeros(shape, tensors[0], reduce(torch.promote_types, (each.dtype for each in tensors)))


def _narrow(*ways: tuple[str, int]) -> Gives:
    """The same operator on the first of the numbers over which it sums, along a size of each argument."""

    def computed(func: Any, given: dict[str, Any]) -> Any:
        some = {name: given[name].narrow(size, 0, 1) for name, size in ways if given[name] is not None}
        return func(**{**given, **some})

    return computed


def _product(x: str, matrix: str, size: int) -> Gives:
    """A product with a matrix in a kernel's own order, one of whose sizes is the number of outputs."""
    return lambda func, given: _zeros((*given[x].shape[:-1], given[matrix].shape[size]), given[x])


PRODUCTS: Mapping[str, Gives] = {
    "aten::_weight_int8pack_mm": _product("self", "mat2", 0),
    "aten::_weight_int4pack_mm_for_cpu": _product("self", "qScaleAndZeros", 1),
    "mkldnn::_linear_pointwise": _product("X", "W", 0),
}
"""Products of activations, which are never computed."""
_ATTENTION = _narrow(("key", -2), ("value", -2), ("attn_mask", -1))
GIVES: Mapping[str, Gives] = {
    **PRODUCTS,
    "aten::_to_copy": _copied,
    "aten::clone": _copied,
    "aten::cat": _joined,
    "aten::mm": _narrow(("self", -1), ("mat2", -2)),
    "aten::bmm": _narrow(("self", -1), ("mat2", -2)),
    "aten::addmm": _narrow(("mat1", -1), ("mat2", -2)),
    "aten::baddbmm": _narrow(("batch1", -1), ("batch2", -2)),
    "aten::scaled_dot_product_attention": _ATTENTION,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _ATTENTION,
}
"""What takes the place of an operator's result on large tensors. All other operators are computed."""
