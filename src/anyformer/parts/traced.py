"""What a function keeps for backward, found by running it on tensors that have sizes and no memory.

For parts whose forward pass is too long to say by hand: a recurrence keeps tens of tensors per chunk. Autograd says which.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from anyformer.parts.layers.recompute import PRODUCTS
from anyformer.tape import Held, Number, Tape

NUMBERS: Mapping[torch.dtype, Number] = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.int64: "int64",
    torch.bool: "bool",
}
DTYPES: Mapping[Number, torch.dtype] = {number: dtype for dtype, number in NUMBERS.items()}


@dataclass(frozen=True)
class Kind:
    """Tensors that differ in nothing that the tape asks for: `of` is an input's or a parameter's name, or what is shared."""

    number: Number
    kept: bool
    product: bool
    of: Hashable = None
    cast: bool = False
    output: bool = False


@dataclass(frozen=True)
class Trace:
    """Elements of each kind of tensor that is kept, given by a product, or put out.

    `put_out`: elements of the output, which may be a part of what stands in memory; `apart`: whether in another order.
    """

    elements: Mapping[Kind, int]
    put_out: int
    apart: bool

    def towards(self, later: Trace, steps: int) -> Trace:
        """So many times as far as from this to the later one: in a recurrence every chunk adds the same."""
        kinds = dict.fromkeys([*self.elements, *later.elements])
        first, last = self.elements, later.elements
        elements = {kind: first.get(kind, 0) + steps * (last.get(kind, 0) - first.get(kind, 0)) for kind in kinds}
        return Trace(elements, self.put_out + steps * (later.put_out - self.put_out), self.apart)

    def put_on(self, tape: Tape, inputs: Mapping[str, Held]) -> Held:
        """Every tensor as the tape has it; gives the output."""
        given: Held | None = None
        for kind, elements in self.elements.items():
            held = self._held(tape, kind, elements, inputs)
            if kind.kept and kind.cast:
                tape.casts.setdefault(f"{tape.owner}{kind.of}", held)
            elif kind.kept:
                tape.keep("traced", held)
            if kind.product:
                tape.gives("products", held)
            given = held if kind.output else given
        assert given is not None, "a traced function gives something"
        return given if given.elements == self.put_out else Held(self.put_out, given.number, base=given, apart=self.apart)

    def _held(self, tape: Tape, kind: Kind, elements: int, inputs: Mapping[str, Held]) -> Held:
        if isinstance(kind.of, str) and kind.of in inputs:
            return inputs[kind.of]
        if kind.of is not None and not kind.cast:
            return tape.shared(("traced", kind.of), lambda: tape.new(elements, kind.number, learns=False))
        return tape.new(elements, kind.number)


def trace(
    run: Callable[[], Tensor],
    inputs: Mapping[str, Tensor],
    parameters: Mapping[str, Tensor],
    shared: Callable[[], Iterator[tuple[Hashable, Tensor]]],
) -> Trace:
    """What the graph of run() keeps of `inputs` and makes itself; `shared`: what it made that others read too."""
    watched = _Watched({_address(p): name for name, p in parameters.items()})
    with watched, torch.autograd.graph.saved_tensors_hooks(watched.pack, _Handle.unpack):
        output = run()
    names: dict[int, Hashable] = {_address(x): key for key, x in shared()}
    names |= {_address(x): name for name, x in inputs.items()} | watched.casts
    kept = {_address(handle.tensor): handle.tensor for handle in watched.handles}
    found = kept | watched.products | {_address(output): output}
    count: Counter[Kind] = Counter()
    for at, x in found.items():
        if at not in watched.parameters:
            number, elements = _size(x)
            count[
                Kind(number, at in kept, at in watched.products, names.get(at), at in watched.casts, at == _address(output))
            ] += elements
    return Trace(dict(count), output.numel(), not output.is_contiguous())


def chunked(run: Callable[[int], Trace], length: int, step: int) -> Trace:
    """run(length) of a recurrence over chunks of `step`: of many from three and four, of which the last is as long.

    What the first chunk enters with is zero, and nobody reads what the last one leaves, so that two are not yet like many.
    """
    steps = (length - 1) // step - 2
    if steps < 2:
        return run(length)
    first = length - steps * step
    return run(first).towards(run(first + step), steps)


def empty(sizes: Sequence[int], number: Number, device: str) -> Tensor:
    """A tensor that learns."""
    return torch.empty(tuple(sizes), dtype=DTYPES[number], device=device, requires_grad=True)


class _Handle:
    """What autograd holds in a tensor's place."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def unpack(self) -> Tensor:
        return self.tensor


class _Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What is packed, what products give, and which tensors are copies of parameters in another type."""

    def __init__(self, parameters: Mapping[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parameters = parameters
        self.handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        self.products: dict[int, Tensor] = {}
        self.casts: dict[int, Hashable] = {}
        self._alive: list[Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and to say so would import the compiler, which takes a second."""
        return False

    def pack(self, x: Tensor) -> _Handle:
        handle = _Handle(x.detach())
        self.handles.add(handle)
        return handle

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        given = operator(*args, **(kwargs or {}))
        # Addresses are told apart only while all tensors are there; not their graphs, for one that is dropped keeps nothing.
        made = [x.detach() for x in tree_leaves(given) if isinstance(x, Tensor)]
        self._alive += made
        if operator in PRODUCTS:
            self.products |= {_address(x): x for x in made}
        elif operator is torch.ops.aten._to_copy.default and _address(args[0]) in self.parameters:
            self.casts |= {_address(x): self.parameters[_address(args[0])] for x in made}
        return given


def _address(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _size(x: Tensor) -> tuple[Number, int]:
    """Of the whole storage; another type of number is counted in bytes."""
    size = x.untyped_storage().nbytes()
    return (NUMBERS[x.dtype], size // x.itemsize) if x.dtype in NUMBERS else ("bool", size)
