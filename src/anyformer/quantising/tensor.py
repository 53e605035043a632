"""A matrix in few bits that any operation may read: it is restored for that operation alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from anyformer.parts.experts.chosen import chosen_product, each_by_its_own
from anyformer.parts.experts.grouped import grouped_products, groups_with_rows, one_by_one
from anyformer.quantising.format import Quantising
from anyformer.quantising.formats import FORMATS, HALF, SINGLE
from anyformer.quantising.packing import typed
from anyformer.quantising.products import QuantisedProduct

_ATEN = torch.ops.aten
_SAME = (_ATEN.detach.default, _ATEN.alias.default, _ATEN.clone.default, _ATEN._to_copy.default, _ATEN.to.dtype)


class Quantised(Tensor):
    """A matrix (..., O, I) of type `dtype` that holds the planes of a format, and is not trained.

    Every operation sees the restored matrix, but two that stay quantised: a copy to another type or device, and one of several
    matrices. A linear map keeps the planes alone for its backward pass.
    """

    format: Quantising
    planes: Mapping[str, Tensor]

    @staticmethod
    def __new__(cls, planes: Mapping[str, Tensor], format: Quantising, shape: tuple[int, ...], dtype: torch.dtype) -> Self:
        device = next(iter(planes.values())).device
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        made.format, made.planes = format, dict(planes)
        for name, plane in planes.items():
            setattr(made, _inner(name), plane)
        return made

    @classmethod
    def of(cls, matrix: Tensor, format: Quantising) -> Self:
        """The matrix, each number rounded to the nearest."""
        return cls(format.quantised(matrix.detach()), format, tuple(matrix.shape), matrix.dtype)

    @classmethod
    def empty(cls, matrix: Tensor, format: Quantising) -> Self:
        """A matrix like this one, on its device, still without values."""
        shape = tuple(matrix.shape)
        planes = {name: matrix.new_empty(size, dtype=typed(kind)) for name, (size, kind) in format.planes(shape).items()}
        return cls(planes, format, shape, matrix.dtype)

    @property
    def restored(self) -> Tensor:
        """The matrix as plain numbers."""
        return self.format.restored(self.planes, tuple(self.shape)).to(self.dtype)

    @property
    def whole(self) -> Tensor:
        """The restored matrix for an operation that is no product of a linear map."""
        return self.restored

    def one(self, dimension: int, index: int) -> Self | None:
        """One of several matrices (X, O, I), in few bits; None where the format cannot tell them apart."""
        planes = self.format.one(self.planes, index) if self.dim() == 3 and dimension in (0, -3) else None
        return None if planes is None else type(self)(planes, self.format, tuple(self.shape[1:]), self.dtype)

    def alike(self, planes: Mapping[str, Tensor], dtype: torch.dtype) -> Quantised:
        """The same matrix with copies of its planes."""
        return type(self)(planes, self.format, tuple(self.shape), dtype)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the planes."""
        return sum(plane.nbytes for plane in self.planes.values())

    @property
    def read_bytes(self) -> int:
        """Bytes that a product of a few rows reads."""
        return self.stored_bytes

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Quantised({self.format.name}, shape={tuple(self.shape)}, dtype={self.dtype}, device={self.device})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple[str, torch.dtype]]:
        return [_inner(name) for name in self.planes], (self.format.name, self.dtype)

    @staticmethod
    def __tensor_unflatten__(
        inner: Mapping[str, Tensor], context: tuple[str, torch.dtype], size: tuple[int, ...], stride: Any
    ) -> Quantised:
        planes = {name.removeprefix(_inner("")): plane for name, plane in inner.items()}
        return Quantised(planes, format_named(context[0]), tuple(size), context[1])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.detach:  # here, since torch's dispatch for subclasses imports its distributed tensors at first: 0.3 s
            return args[0].alike(args[0].planes, args[0].dtype)
        if func is F.linear and torch.is_grad_enabled():
            bound = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            if isinstance(bound["weight"], Quantised) and bound["input"].requires_grad:
                y = _Linear.apply(bound["input"], bound["weight"])  # type: ignore[no-untyped-call]
                return y if bound.get("bias") is None else y + bound["bias"].to(y.dtype)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        if func in _SAME and kwargs.get("layout") in (None, torch.strided):
            held, device, copies = args[0], kwargs.get("device"), func is _ATEN.clone.default
            planes = {name: _copied(plane, device, copies) for name, plane in held.planes.items()}
            dtype = args[1] if func is _ATEN.to.dtype else kwargs.get("dtype")
            return held.alike(planes, dtype or held.dtype)
        # In inference mode a view of this tensor, which was not made there, may not be one that was.
        with torch.inference_mode(torch.is_inference_mode_enabled() and not func.is_view):
            if func is _ATEN.select.int and (one := args[0].one(*args[1:])) is not None:
                return one
            args, kwargs = tree_map_only(Quantised, lambda held: held.whole, (args, kwargs))
            return func(*args, **kwargs)


class PackedMatrix(Quantised):
    """A matrix for generating: a few rows are multiplied by it as it is stored, where torch has a kernel for that.

    Products with 16 bits and fewer round what they multiply to bf16. A matrix in 4 bits lies in memory twice from its first
    product on: the planes, of which many rows and rows that are looked up are made, and a copy in the kernel's order. So does
    one in 8 bits whose outputs are no multiple of 16.
    """

    @cached_property
    def product(self) -> QuantisedProduct | None:
        """The kernel's product, made at its first use; it may hold the numbers in an order of its own.

        Whoever records that use is not to make it again each time.
        """
        with torch._C.DisableTorchFunction():
            return self.format.product(self.planes, tuple(self.shape))

    @property
    def read_bytes(self) -> int:
        if self.dim() == 3 and self.format.one(self.planes, 0) is not None:
            return len(self) * self._one(0).read_bytes
        return self.stored_bytes if self.product is None else self.product.read

    @cached_property
    def whole(self) -> Tensor:
        """The restored matrix, kept: some layers read it in every step, such as latent attention for one query.

        Beside formats of at most 16 bits its numbers are those of bf16, whatever type holds them.
        """
        if self.format.bits > HALF.bits or self.dtype != torch.float32:
            return self.restored
        made = self.restored.to(torch.bfloat16).to(self.dtype)
        _HALVES[made] = None
        return made

    @cached_property
    def _each(self) -> dict[int, PackedMatrix]:
        """Those of several matrices that were multiplied by: a kernel's product may take long to make."""
        return {}

    @cached_property
    def _products(self) -> dict[int, QuantisedProduct]:
        """Those of `_each` that have one."""
        return {}

    def grouped(self, rows: Tensor, ends: Tensor, whole: bool) -> Tensor:
        """(Q, I) -> (Q, O) by several matrices, as `grouped_products` has it."""
        if self.format.one(self.planes, 0) is None:
            return one_by_one(rows, self.restored, ends, whole)
        size = (len(rows), self.shape[1])
        y = rows.new_empty(size) if whole else rows.new_zeros(size)
        for x, start, stop in groups_with_rows(ends):
            y[start:stop] = self._one(x).times(rows[start:stop], None)
        return y

    def chosen(self, rows: Tensor, expert: Tensor) -> Tensor:
        """(Q, I) -> (Q, O) by several matrices, as `chosen_product` has it."""
        if self.format.one(self.planes, 0) is None:
            return chosen_product(rows, self.restored, expert)
        numbers, (experts, outputs, _) = expert.tolist(), self.shape
        products = [self._products[x] for x in numbers if x in self._products]
        if len(products) < len(numbers) or len(set(numbers)) < len(numbers):
            return each_by_its_own(rows, numbers, experts, outputs, lambda x, some: self._one(x).times(some, None))
        # As for one token, in the fewest calls: each takes as long as a fifth of a product.
        each = zip(products, torch.split(rows.to(products[0].dtype), 1), strict=True)
        return torch.cat([product.few(row) for product, row in each]).to(rows.dtype)

    def one_product(self, index: int) -> QuantisedProduct | None:
        """The kernel's product with one of several matrices, if there is one."""
        return self._one(index).product

    def _one(self, index: int) -> PackedMatrix:
        if index not in self._each:
            planes = self.format.one(self.planes, index)
            assert planes is not None, "the format tells them apart"
            self._each[index] = one = type(self)(planes, self.format, tuple(self.shape[1:]), self.dtype)
            if (product := one.product) is not None:
                self._products[index] = product
        return self._each[index]

    def times(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x W^T + b, by a kernel where one suits."""
        product = self.product
        if product is None:
            return F.linear(x, self.restored, bias)
        return product(x) if bias is None else product(x) + bias

    @staticmethod
    def instead(func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor | None:
        """What `func` gives, by calls that read the planes alone; None for calls that need the restored matrix."""
        if func is F.linear and not torch.is_grad_enabled():
            bound = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            x, weight, bias = bound["input"], bound["weight"], bound.get("bias")
            if isinstance(weight, PackedMatrix):
                return weight.times(x, bias)
        if func is F.embedding:
            index, table = args
            rows = table.format.rows(table.planes, tuple(table.shape), index)
            return None if rows is None else rows.to(table.dtype)
        return None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = cls.instead(func, args, kwargs or {})
        if made is None and func is grouped_products:
            rows, held, ends, whole = args
            made = held.grouped(rows, ends, whole)
        if func is chosen_product:
            rows, held, expert = args
            made = held.chosen(rows, expert)
        return super().__torch_function__(func, types, args, kwargs) if made is None else made


_HALVES = WeakIdKeyDictionary()
"""Matrices in fp32 whose numbers bf16 has all, and the same in bf16 where somebody asked for that."""


def in_bfloat16(tensor: Tensor) -> Tensor | None:
    """The same numbers in half the bytes, of a matrix in fp32 that `PackedMatrix.whole` gave; None of any other tensor."""
    if tensor not in _HALVES:
        return None
    if _HALVES[tensor] is None:
        _HALVES[tensor] = tensor.to(torch.bfloat16)
    found: Tensor = _HALVES[tensor]
    return found


class _Linear(torch.autograd.Function):
    """x W^T, which keeps W in few bits until the gradient of x = that of y times W is asked for."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Quantised) -> Tensor:
        ctx.weight = weight
        if torch.is_autocast_enabled(input.device.type):
            return F.linear(input, weight.restored)
        return F.linear(input, weight.restored.to(input.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient @ ctx.weight.restored.to(gradient.dtype), None


def _copied(plane: Tensor, device: torch.device | None, copy: bool) -> Tensor:
    """A plane on a device; one in a kernel's order is never changed and stays where it is."""
    return plane if plane.is_mkldnn and device in (None, plane.device) else plane.to(device, copy=copy)


def _inner(plane: str) -> str:
    """The attribute under which a compiler finds a plane."""
    return f"plane_{plane}"


def restored(tensor: Tensor) -> Tensor:
    """Plain numbers, whatever holds them."""
    return tensor.restored if isinstance(tensor, Quantised) else tensor


def stored_bytes(tensor: Tensor) -> int:
    """Bytes that a tensor takes."""
    return tensor.stored_bytes if isinstance(tensor, Quantised) else tensor.nbytes


def read_bytes(tensor: Tensor) -> int:
    """Bytes that a product of a few rows with a tensor reads of it."""
    return tensor.read_bytes if isinstance(tensor, Quantised) else tensor.nbytes


def format_named(name: str) -> Quantising:
    """A format below 16 bits by its name."""
    format = {each.name: each for each in (HALF, SINGLE)}.get(name) or FORMATS[name]
    assert isinstance(format, Quantising), f"{name} stores plain numbers"
    return format
