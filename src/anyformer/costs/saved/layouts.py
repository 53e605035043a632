"""The sizes, types and strides of an operation's outputs, without torch's own meta operators.

On the meta device most operators are written in Python and import torch's compiler, which takes a second. But an operator lays
out tensors of four numbers as it does those of four billion: so it is run once, on the processor, with every size that is not
1 made a small one of its own, and its outputs show which size and which stride goes where. Operators not known to keep sizes
run on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

META = torch.device("meta")
aten = torch.ops.aten
Form = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]
"""Type; sizes, each above 1 as its rank among all sizes, from 2 on; and the rank of every stride, 0 where it is 0."""
SAME_SIZES: frozenset[Any] = frozenset(
    {
        aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.linalg_solve_triangular.default,
        aten.mean.dim, aten.mean.default, aten.sum.dim_IntList, aten.sum.default, aten.amax.default, aten.any.dim,
        aten.argmax.default, aten.logsumexp.default, aten.cumsum.default, aten._softmax.default, aten._safe_softmax.default,
        aten.embedding.default, aten.gather.default, aten.scatter.src, aten.index_select.default, aten.searchsorted.Tensor,
        aten.sort.stable, aten.flip.default, aten.tril.default, aten._to_copy.default, aten.zeros_like.default,
        aten.ones_like.default, aten.floor_divide.default, aten.amin.default, aten.linalg_vector_norm.default,
        aten.log_sigmoid_forward.default, aten.scatter.value, aten.scatter_add.default,
    }
)  # fmt: skip
"""Operators, beside elementwise ones, whose every output size is a size of an input."""
_recipes: dict[Any, list[Form] | None] = {}


def laid_out(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator's outputs on the meta device; None where torch has to compute them."""
    if rule := _RULES.get(operator):
        return rule(*args, **kwargs)
    if not _keeps_sizes(operator):
        return None
    if operator._schema.is_mutable:
        return args[0]
    sizes = sorted({n for x in args if isinstance(x, Tensor) for n in x.shape if n > 1})
    letters = {n: i + 2 for i, n in enumerate(sizes)}
    forms = tuple(_form(x, letters) if isinstance(x, Tensor) else _plain(operator, x) for x in args)
    key = operator, forms, tuple((name, x) for name, x in kwargs.items() if name != "device")
    if key not in _recipes:
        _recipes[key] = _tried(operator, args, forms, kwargs, letters)
    recipe = _recipes[key]
    if recipe is None:
        return None
    made = [_empty(dtype, [sizes[n - 2] if n > 1 else n for n in small], ranks) for dtype, small, ranks in recipe]
    return made[0] if len(operator._schema.returns) == 1 else tuple(made)


@cache
def _keeps_sizes(operator: Any) -> bool:
    return operator in SAME_SIZES or torch.Tag.pointwise in operator.tags


def _plain(operator: Any, x: Any) -> Any:
    """The part of an argument that decides the outputs' form: of a number of an elementwise operation its type alone."""
    if isinstance(x, list):
        return tuple(x)
    return type(x) if isinstance(x, int | float) and torch.Tag.pointwise in operator.tags else x


def _form(x: Tensor, letters: Mapping[int, int]) -> Form:
    return x.dtype, tuple(letters.get(n, n) for n in x.shape), _ranks(x.stride())


@lru_cache(maxsize=4096)
def _ranks(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Ranks of strides: 1 for the smallest, and more for each larger one."""
    order = sorted({0, *strides})
    return tuple(map(order.index, strides))


def _tried(
    operator: Any, args: Sequence[Any], forms: Sequence[Any], kwargs: Mapping[str, Any], letters: Mapping[int, int]
) -> list[Form] | None:
    """The forms of an operator's outputs for small tensors; None where it refuses them, or makes a size of its own."""
    inputs = [_small(form) if isinstance(x, Tensor) else x for x, form in zip(args, forms, strict=True)]
    try:
        made = operator(*inputs, **{name: x for name, x in kwargs.items() if name != "device"})
    except (RuntimeError, IndexError):
        return None
    outputs = [made] if isinstance(made, Tensor) else list(made)
    known = {0, 1, *letters.values()}
    if not all(isinstance(x, Tensor) and known.issuperset(x.shape) for x in outputs):
        return None
    return [(x.dtype, tuple(x.shape), _ranks(x.stride())) for x in outputs]


def _small(form: Form) -> Tensor:
    dtype, sizes, ranks = form
    strides, count = _strides(tuple(sizes), tuple(ranks))
    return torch.ones(count, dtype=dtype).as_strided(sizes, strides)


def _empty(dtype: torch.dtype, sizes: Sequence[int], ranks: Sequence[int]) -> Tensor:
    return torch.empty_strided(sizes, _strides(tuple(sizes), tuple(ranks))[0], dtype=dtype, device=META)


@lru_cache(maxsize=4096)
def _strides(sizes: tuple[int, ...], ranks: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The strides of a dense tensor whose strides have these ranks, and its number of elements."""
    strides, count = [0] * len(sizes), 1
    for rank in range(1, max(ranks, default=0) + 1):
        dims = [i for i, other in enumerate(ranks) if other == rank]
        for i in dims:
            strides[i] = count
        count *= prod(max(sizes[i], 1) for i in dims)
    return tuple(strides), count


def _like(x: Tensor, sizes: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(tuple(sizes), dtype=dtype or x.dtype, device=META)


def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    first = tensors[0]
    if any(x.dtype != first.dtype or x.dim() != first.dim() for x in tensors):
        return None
    sizes = list(first.shape)
    sizes[dim] = sum(x.shape[dim] for x in tensors)
    return _like(first, sizes)


def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    sizes = list(tensors[0].shape)
    sizes.insert(dim if dim >= 0 else dim + len(sizes) + 1, len(tensors))
    return _like(tensors[0], sizes)


def _arange(*bounds: float, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    whole = all(isinstance(x, int) for x in (start, end, step))
    return torch.empty(ceil((end - start) / step), dtype=dtype or (torch.int64 if whole else torch.float32), device=META)


def _pad(x: Tensor, pads: Sequence[int], value: float = 0) -> Tensor:
    sizes = list(x.shape)
    for i in range(len(pads) // 2):
        sizes[-1 - i] += pads[2 * i] + pads[2 * i + 1]
    return _like(x, sizes)


def _topk(x: Tensor, count: int, dim: int = -1, *_: bool) -> tuple[Tensor, Tensor]:
    sizes = list(x.shape)
    sizes[dim] = count
    return _like(x, sizes), _like(x, sizes, torch.int64)


def _scalar(value: float, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.empty((), dtype=dtype or torch.float32, device=META)


def _zeros(sizes: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.empty(tuple(sizes), dtype=dtype or torch.float32, device=META)


def _new(x: Tensor, sizes: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _like(x, sizes, dtype)


def _drawn(*args: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.empty(tuple(next(x for x in args if isinstance(x, list | tuple))), dtype=dtype or torch.int64, device=META)


def _repeat(x: Tensor, times: Sequence[int]) -> Tensor:
    """A dimension in front for each count that has none of its own."""
    sizes = (*[1] * (len(times) - x.dim()), *x.shape)
    return _like(x, [size * count for size, count in zip(sizes, times, strict=True)])


def _eye(rows: int, columns: int | None = None, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _zeros((rows, rows if columns is None else columns), dtype=dtype)


def _layer_norm(x: Tensor, normalised: Sequence[int], weight: Tensor | None, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and each row's mean and 1 / deviation, which are of the weight's type."""
    kept = x.dim() - len(normalised)
    sizes = (*x.shape[:kept], *[1] * len(normalised))
    row = _like(x, sizes, None if weight is None else weight.dtype)
    return _like(x, x.shape), row, _like(row, sizes)


def _attention(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    """The output, laid out as the queries are, and log Z."""
    B, H, T = q.shape[:3]
    return _empty(q.dtype, q.shape, _ranks(q.stride())), _like(q, (B, T, H), torch.float32).transpose(1, 2)


_RULES: dict[Any, Callable[..., Any]] = {
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.arange.default: _arange,
    aten.arange.start: _arange,
    aten.arange.start_step: _arange,
    aten.constant_pad_nd.default: _pad,
    aten.topk.default: _topk,
    aten.scalar_tensor.default: _scalar,
    aten.zeros.default: _zeros,
    aten.ones.default: _zeros,
    aten.new_zeros.default: _new,
    aten.new_ones.default: _new,
    aten.new_empty.default: _new,
    aten._unsafe_view.default: Tensor.view,
    aten.randn.default: _zeros,
    aten.randn.generator: _zeros,
    aten.randint.low: _drawn,
    aten.randint.low_generator: _drawn,
    aten.eye.default: _eye,
    aten.eye.m: _eye,
    aten.repeat.default: _repeat,
    aten.native_layer_norm.default: _layer_norm,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
}
