"""A forward pass on paper: sizes in place of tensors, and which of them autograd keeps for the backward pass.

What a part keeps cannot be added up like its weights: the input of three projections is kept once, and so is a product
that the next part reads. So each part says with `keeps(tape, x) -> y` what its forward pass does, in its order, and the
tape keeps every tensor once, whoever asks: by identity, as storages are. The rules are autograd's, per operation:

    x W^T                keeps x (in the type of products) and W      x + y, c x, casts, views   keep nothing
    x * y                keeps both factors                           exp, tanh, sigmoid, relu   keep what they give
    x^2, silu, gelu      keep x                                       softmax, rsqrt             keep what they give

A factor is kept only for the gradient of the other one. Parameters are not counted, for they are there anyway; their copies
in bfloat16 are, once each, apart from the activations.

A layer that is computed again in the backward pass (`Plan.checkpointing`) keeps what it is given, and with `selective` what its
matrix products and its attention give; all else that it keeps goes on a tape of its own. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from anyformer.operations import Shape
from anyformer.plan import Plan

Number = Literal["fp32", "bf16", "int64", "bool"]
SIZES: dict[Number, int] = {"fp32": 4, "bf16": 2, "int64": 8, "bool": 1}


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor by its size, equal to itself alone. `learns`: a gradient flows into it.

    `base`: what a view is of, which is kept whole; `apart`: a view whose rows a matrix product has to copy first. A reshaped
    tensor is the tensor itself.
    """

    elements: int
    number: Number
    learns: bool = True
    parameter: bool = False
    base: Held | None = None
    apart: bool = False

    @property
    def bytes(self) -> int:
        return self.elements * SIZES[self.number]


@dataclass(frozen=True)
class Source:
    """Keys and values of a layer, for others that read them."""

    key: Held
    value: Held


@dataclass(frozen=True)
class Learning:
    """Which weights learn, by path, and the rank of the pair of matrices that learns beside others (LoRA), by their path."""

    weights: frozenset[str]
    ranks: Mapping[str, int]

    def within(self, prefix: str) -> Hashable:
        """The same of one layer, to tell whether another is like it."""
        names = frozenset(name.removeprefix(prefix) for name in self.weights if name.startswith(prefix))
        return names, tuple((name.removeprefix(prefix), rank) for name, rank in self.ranks.items() if name.startswith(prefix))


@dataclass
class Tape:
    """`kept`: name of every tensor kept, by who asked first; `casts`: parameters in another type, by path.

    `shape`: of the stack that is computed; `source`: what its cross-attentions read; `path`: the part that is computed;
    `owner`: the same for its parameters, where layers share them. `once`: what all layers of the stack share; `tokens`: what
    was embedded; `common`: what outlives the layer that made it; `entered`: the path and the input of every layer.
    `bias`, `relative`: what all layers of the stack read, if they do. `again`: the tapes of layers that are computed again; of
    such a layer `outer` is where goes what it keeps until then, and `given` what it need not make again.
    `scoreless`: every attention by a kernel that writes no scores, masks or biases of them, whatever torch's would do.
    `learning`: which weights learn, None for all. A matrix that does not learn keeps no input.
    """

    plan: Plan
    shape: Shape
    path: str = ""
    owner: str = ""
    source: Held | None = None
    variant: str = ""
    relative: Held | None = None
    bias: Callable[[Tape], Held] | None = None
    training: bool = True
    scoreless: bool = False
    learning: Learning | None = None
    kept: dict[Held, str] = field(default_factory=dict)
    casts: dict[str, Held] = field(default_factory=dict)
    once: dict[Hashable, Held] = field(default_factory=dict)
    memories: dict[str, Source] = field(default_factory=dict)
    tokens: dict[str, Held] = field(default_factory=dict)
    common: dict[Held, None] = field(default_factory=dict)
    entered: list[tuple[str, Held]] = field(default_factory=list)
    again: list[Tape] = field(default_factory=list)
    outer: dict[Held, str] | None = None
    given: dict[Held, None] = field(default_factory=dict)

    @property
    def products(self) -> Number:
        """The type of matrix products."""
        return self.plan.number

    @property
    def rows(self) -> int:
        """B * T."""
        return self.shape.batch * self.shape.length

    def within(self, name: str, owner: str | None = None) -> Tape:
        """The same tape, in the part called `name`, whose parameters are those of `owner`."""
        return replace(self, path=f"{self.path}{name}.", owner=f"{self.owner}{owner or name}.")

    def at(self, shape: Shape, source: Held | None = None) -> Tape:
        """The same tape in another stack, which shares nothing between its layers yet but what they read."""
        self.common.update({source: None} if source else {})
        return replace(self, shape=shape, source=source, once={}, memories={})

    def layer(self, name: str, owner: str, variant: str, *reads: Held | None) -> Tape:
        """The same tape in a layer that is given x and whatever else it `reads`; a new one if it is computed again."""
        at, x = replace(self.within(name, owner), variant=variant), reads[0]
        assert x is not None, "a layer has an input"
        self.entered.append((at.path, x))
        if self.plan.checkpointing == "none":
            return at
        own = replace(at, kept={}, casts={}, once={}, outer=self.kept, given={})
        own.give("input", *reads)
        self.again.append(own)
        return own

    def give(self, name: str, *held: Held | None) -> None:
        """What the layer reads of other layers or of the call: computed again, it needs them."""
        self._stays(name, *held)
        self.common.update({one: None for one in held if one is not None})

    def gives(self, name: str, y: Held, *more: Held) -> Held:
        """What a matrix product or attention gives: `selective` keeps it, and `more` of what the operator gives beside it."""
        if self.plan.checkpointing == "selective":
            self._stays(name, y, *more)
        return y

    def _stays(self, name: str, *held: Held | None) -> None:
        if self.outer is None:
            return
        for one in held:
            if one is not None and not (whole := one.base or one).parameter:
                self.outer.setdefault(whole, f"{self.path}{name}")
                self.given[whole] = None

    @property
    def kept_again(self) -> dict[Held, str]:
        """Of a layer that is computed again: what it keeps for its backward pass only then."""
        return {held: name for held, name in self.kept.items() if held not in self.given}

    @cached_property
    def bytes_again(self) -> int:
        return sum(held.bytes for held in self.kept_again)

    def new(self, elements: int, number: Number, *, learns: bool = True) -> Held:
        return Held(elements, number, learns)

    def like(self, x: Held) -> Held:
        """What an elementwise operation gives."""
        return Held(x.elements, x.number, x.learns)

    def keep(self, name: str, *held: Held) -> None:
        for one in held:
            whole = one.base or one
            if not whole.parameter:
                self.kept.setdefault(whole, f"{self.path}{name}")

    def cast(self, x: Held, number: Number) -> Held:
        """The same in another type; itself where it has that type."""
        return x if x.number == number else Held(x.elements, number, x.learns)

    def parameter(self, elements: int, number: Number, *, learns: bool = True) -> Held:
        """A parameter, or a copy of it made for one call."""
        return Held(elements, number, learns, parameter=number == "fp32")

    def shared(self, key: Hashable, make: Callable[[], Held]) -> Held:
        """What all layers of a stack share."""
        if key not in self.once:
            self.once[key] = make()
            self.common[self.once[key]] = None
        return self.once[key]

    def score_bias(self) -> Held | None:
        """The stack's bias of scores, which layers that are not computed again share."""
        make = self.bias
        return None if make is None else self.shared("score_bias", lambda: make(self))

    def linear(self, name: str, x: Held, inputs: int, outputs: int, *, weight: str | None = None) -> Held:
        """x W^T, x (..., inputs); `weight`: the path of W, where it is another part's."""
        read = self.cast(self.like(x) if x.apart else x, self.products)
        path = weight or f"{self.owner}{name}.weight"
        rank = 0 if self.learning is None else self.learning.ranks.get(path, 0)
        if rank or self.learns(path):
            self.keep(f"{name}.input", read)
        if rank:
            self.keep(f"{name}.adapter", Held(x.elements // inputs * rank, self.products))
        if x.learns and self.products != "fp32":
            self.casts.setdefault(path, Held(inputs * outputs, self.products))
        return self.gives(f"{name}.output", Held(x.elements // inputs * outputs, self.products))

    def learns(self, path: str) -> bool:
        """Whether the weight of that path takes a gradient."""
        return self.learning is None or path in self.learning.weights

    def times(self, name: str, x: Held, y: Held) -> Held:
        """x * y, each broadcast to the other."""
        if y.learns:
            self.keep(name, x)
        if x.learns:
            self.keep(name, y)
        number: Number = x.number if x.number == y.number else "fp32"
        return Held(max(x.elements, y.elements), number, x.learns or y.learns)

    def dropped(self, name: str, x: Held, rate: float, draws: int | None = None) -> Held:
        """x with elements dropped: the factors are kept; `draws` of them, one for each element by default."""
        if not self.training or rate == 0:
            return x
        return self.times(name, x, Held(x.elements if draws is None else draws, x.number, learns=False))
