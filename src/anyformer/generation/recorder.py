"""The calls of torch that a step makes, put down so that they can be made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from anyformer.generation.program import RecordedCall, RecordedTensor, found_in
from anyformer.generation.recorded_step import RecordedStep
from anyformer.parts.experts.chosen import chosen_product
from anyformer.parts.experts.grouped import grouped_products
from anyformer.quantising.tensor import PackedMatrix

READS = frozenset({"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__iter__"})
"""Calls by which Python learns the values of a tensor, on which it may decide what it calls next."""

CASTS = frozenset({"to", "float", "type_as", "contiguous"})
"""Calls that give the tensor itself where it is already as they ask."""
MADE_OF_PRODUCTS = frozenset({grouped_products, chosen_product})
"""Calls that take packed matrices as they are, and choose among them by values."""


class Recorder(TorchFunctionMode):
    """Inside, every call of torch is made and put down in `calls`; views of memory that stays in `views`.

    `given`: the tensors that are new in every repetition; `kept`: all others that the calls read and did not make. Not `whole`:
    Python read values, so the calls may be others next time.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        super().__init__()
        self.calls, self.views, self.kept, self.whole = list[RecordedCall](), list[RecordedCall](), list[Tensor](), True
        self.given, self.held = [RecordedTensor() for _ in given], list[RecordedTensor]()
        self._values = {id(tensor): value for tensor, value in zip(given, self.given, strict=True)}
        self._alive = list(given)
        """All that have a value: a tensor that is gone may leave its identity to another."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(each, PackedMatrix) for each in types):
            with self:  # so that the calls that read its planes are put down
                made = PackedMatrix.instead(func, args, kwargs)
            if made is not None:
                return made
            if func not in MADE_OF_PRODUCTS and func.__name__ not in (*CASTS, "__get__"):
                args, kwargs = _each(_whole, (args, kwargs))
        self.whole = self.whole and func.__name__ not in READS
        made = func(*args, **kwargs)
        # `x[i] = y` gives nothing; what gives only numbers, such as a shape, changes nothing and is the same next time.
        gives = made is None or next(found_in(made, Tensor), None) is not None
        needless = func.__name__ in CASTS and made is args[0]
        if self.whole and gives and not needless:
            self._put_down(func, args, kwargs, made)
        return made

    def value(self, tensor: Tensor) -> RecordedTensor:
        """The value that stands for a tensor; one that no call made is kept from now on."""
        if id(tensor) not in self._values:
            self.kept.append(tensor)
            self.held.append(self._new(tensor, lasting=True))
        return self._values[id(tensor)]

    def written(self, result: Tensor) -> RecordedStep:
        """A function that makes all calls again for other tensors in the places of `kept`, and gives what `result` then is."""
        value = self.value(result)
        return RecordedStep(tuple(self.views), tuple(self.calls), tuple(self.held), tuple(self.given), value)

    def _put_down(self, func: Any, args: Any, kwargs: dict[str, Any], made: Any) -> None:
        read: list[Tensor] = []

        def named(tensor: Tensor) -> RecordedTensor:
            read.append(tensor)
            return self.value(tensor)

        args, kwargs = _each(named, (args, kwargs))
        reads = tuple(self._values[id(tensor)] for tensor in read)
        if func.__name__ == "__get__":  # such as `x.T`
            func, args, kwargs = getattr, (args[0], func.__self__.__name__), {}
        lasting = bool(reads) and all(value.lasting for value in reads) and self._is_view(read, list(found_in(made, Tensor)))
        (self.views if lasting else self.calls).append(RecordedCall(func, args, kwargs, reads, self._given_by(made, lasting)))

    def _is_view(self, read: Sequence[Tensor], made: Sequence[Tensor]) -> bool:
        """Whether a call gave nothing but new views of what it read: they show whatever is written there later."""
        if not made or any(id(tensor) in self._values for tensor in made) or not all(map(_plain, (*read, *made))):
            return False
        places = {tensor.untyped_storage().data_ptr() for tensor in read}
        return all(tensor.untyped_storage().data_ptr() in places for tensor in made)

    def _given_by(self, made: Any, lasting: bool) -> Any:
        """The values of new tensors among the results of a call."""
        if isinstance(made, tuple | list):
            return tuple(self._given_by(each, lasting) for each in made)
        return self._new(made, lasting) if isinstance(made, Tensor) and id(made) not in self._values else None

    def _new(self, tensor: Tensor, lasting: bool) -> RecordedTensor:
        self._alive.append(tensor)
        self._values[id(tensor)] = value = RecordedTensor(lasting)
        return value


def _each(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Arguments with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_each(change, each) for each in value) if value else value
    if isinstance(value, dict):
        return {key: _each(change, each) for key, each in value.items()}
    return value


def _plain(tensor: Tensor) -> bool:
    """Whether a tensor has memory that others may share."""
    return type(tensor) in (Tensor, nn.Parameter) and tensor.layout == torch.strided


def _whole(tensor: Tensor) -> Tensor:
    """The matrix that a packed one holds."""
    return tensor.whole if isinstance(tensor, PackedMatrix) else tensor
