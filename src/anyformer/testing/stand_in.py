"""An accelerator that is not there: tensors of a device that the processor computes for, and a watch over what a GPU waits for.

A tensor of the stand-in device holds one of the processor, so that every operator computes real numbers;
autograd, optimisers and the package's own code see another device. What a GPU would stop for is seen at the
operators: numbers that the host reads, transfers, sizes that depend on numbers, and tensors made on another device.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from anyformer.describe import UserError

NAME = "standin"
CPU = torch.device("cpu")
PACKAGE = Path(__file__).parents[1]
Why = Literal["reads", "moves", "sizes", "makes", "mixes"]
BY_MASK = frozenset({"aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})
"""Operators that look for the places where a mask is true, if they are given one, and else have sizes that are known."""
PRIVATE = ("aten::promote_types", "profiler::")
"""Beginnings of operators that touch no tensor."""


@dataclass(frozen=True, order=True)
class Wait:
    """Something for which a GPU and its host wait for one another, or which a recorded graph of kernels cannot repeat.

    `why`: the host `reads` a number; an operator `moves` numbers between devices; it `sizes` its output by numbers; it `makes`
    a tensor on the processor; it `mixes` tensors of the processor with those of the device. `operator`: torch's name of it.
    `where`: the innermost function of the package, as `file.py function`; `autograd` where there is none.
    """

    where: str
    operator: str
    why: Why


class StandInTensor(Tensor):
    """A tensor of the stand-in device; `held` has its numbers, on the processor. To code that asks, it lies on a GPU."""

    held: Tensor
    is_cuda = True

    @staticmethod
    def __new__(cls, held: Tensor) -> StandInTensor:
        made = Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=stand_in()
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):  # type: ignore[no-untyped-def,override]
        raise AssertionError(f"{operator} computes with tensors of the stand-in device outside of `StandIn`")

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def tolist(self) -> Any:
        _tell("tolist", "reads")
        with _disable_current_modes():
            return self.held.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        _tell("numpy", "reads")
        with _disable_current_modes():
            return self.held.numpy(force=force)

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"StandInTensor({tuple(self.shape)}, {self.dtype})"


@cache
def stand_in() -> torch.device:
    """The stand-in device, which is registered with torch in this process once and for all.

    Raises UserError where another package has given torch a device of its own.
    """
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", NAME):
        raise UserError(f"torch has one place for a device from outside, which {taken!r} has; ask in a process without it")
    _setup_privateuseone_for_python_backend(NAME, backend_module=_StandInModule())
    # Below the operators that modes see, torch.tensor(..., device=...) and lists of indices copy through these two.
    _LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")  # type: ignore[no-untyped-call]
    _LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")  # type: ignore[no-untyped-call]
    return torch.device(NAME, 0)


def leave() -> NoReturn:
    """End this process well and at once: at a usual end torch's threads still ask for the device's Python, which aborts it."""
    sys.stdout.flush()
    os._exit(0)


class _StandInModule(_DummyBackendModule):
    """What torch asks of a device's module. Autocast can be switched off there, not on: torch has no rules for it."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


_LIBRARY = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
_WATCHING: list[StandIn] = []


def _empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return StandInTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _tell("aten::_copy_from", "moves")
    _held(target).copy_(_held(source))
    return target


def _held(x: Tensor) -> Tensor:
    return x.held if isinstance(x, StandInTensor) else x


def _tell(operator: str, why: Why) -> None:
    for watching in _WATCHING:
        watching.wait(operator, why)


class StandIn(TorchDispatchMode):
    """Inside, tensors may be made on the stand-in device and computed with; `watched` says where all is put down.

    `calls`: of every operator, by torch's name; `waits`: what a GPU would wait for; `bytes`: of the tensors that operators read
    and made, views left out.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls, self.waits, self.bytes = Counter[str](), Counter[Wait](), 0
        self._on = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: True would import torch's compiler, which takes as long as torch itself."""
        return False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within, everything is put down."""
        self._on = True
        _WATCHING.append(self)
        try:
            yield
        finally:
            self._on = False
            _WATCHING.remove(self)

    def wait(self, operator: str, why: Why) -> None:
        self.waits[Wait(_place(sys._getframe()), operator, why)] += 1

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs, name = kwargs or {}, operator.name()
        if (written := OPDEFS.get(name)) is not None:  # an operator of ours: what it is made of is what a device computes
            with self:
                return written._init_fn(*args, **kwargs)
        call = _StandInCall()
        given, more = call.down(args), {key: call.down(x) for key, x in kwargs.items()}
        made, device = operator(*given, **more), kwargs.get("device")
        here = bool(call.own) if device is None else torch.device(device).type == NAME
        if self._on and not name.startswith(PRIVATE):
            self._put_down(operator, name, call, made, here)
        return call.up(made, here)

    def _put_down(self, operator: Any, name: str, call: _StandInCall, made: Any, here: bool) -> None:
        self.calls[name] += 1
        if not operator.is_view:
            self.bytes += sum(x.nbytes for x in (*call.own.values(), *_tensors(made)))
        if (why := _reason(operator, name, call, made, here)) is not None:
            self.wait(name, why)


class _StandInCall:
    """One operator's tensors: its `own`, held ones by identity, and whether it was given any `other` and any mask."""

    def __init__(self) -> None:
        self.own: dict[int, Tensor] = {}
        self._wrapped: dict[int, StandInTensor] = {}
        self.other = self.mask = False

    def down(self, x: Any) -> Any:
        if isinstance(x, StandInTensor):
            assert x.held.dtype == x.dtype, "`.data = ` changes a tensor unseen: build the model in its number format"
            self.own[id(x.held)], self._wrapped[id(x.held)] = x.held, x
            self.mask |= x.dtype in (torch.bool, torch.uint8)
            return x.held
        if isinstance(x, Tensor):
            self.other = True
        elif isinstance(x, torch.device):
            return CPU
        return type(x)(map(self.down, x)) if isinstance(x, list | tuple) else x

    def up(self, x: Any, here: bool) -> Any:
        """Outputs on the stand-in device where they belong `here`; an output computed in place is the input itself."""
        if isinstance(x, Tensor):
            given = self._wrapped.get(id(x))
            return given if given is not None else StandInTensor(x) if here else x
        return type(x)(self.up(each, here) for each in x) if isinstance(x, list | tuple) else x


def _reason(operator: Any, name: str, call: _StandInCall, made: Any, here: bool) -> Why | None:
    """Why a device and its host wait at an operator; None where they do not."""
    if call.own and torch.Tag.data_dependent_output in operator.tags:
        return "reads"
    by_numbers = call.mask if name in BY_MASK else torch.Tag.dynamic_output_shape in operator.tags
    if call.own and by_numbers and not _known_size(name, call):
        return "sizes"
    if call.own and call.other:
        return "moves" if name in ("aten::copy_", "aten::_to_copy") else "mixes"
    if bool(call.own) != here and (call.own or call.other):
        return "moves"
    return None if here or not any(True for _ in _tensors(made)) else "makes"


def _known_size(name: str, call: _StandInCall) -> bool:
    """Whether a mask chooses where one number is put: that fills in place."""
    return name != "aten::index.Tensor" and name in BY_MASK and any(x.numel() == 1 for x in list(call.own.values())[1:])


def _tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, list | tuple):
        for each in x:
            yield from _tensors(each)


def _place(frame: FrameType | None) -> str:
    """The innermost function of the package that calls, this file left out."""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if PACKAGE in file.parents and str(file) != __file__:
            return f"{file.relative_to(PACKAGE)} {frame.f_code.co_name}"
        frame = frame.f_back
    return "autograd"
