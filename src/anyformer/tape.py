"""A forward pass on paper: sizes in place of tensors, and which of them autograd keeps for the backward pass.

What a part keeps cannot be added up like its weights: the input of three projections is kept once, and so is a product
that the next part reads. So each part says with `keeps(tape, x) -> y` what its forward pass does, in its order, and the
tape keeps every tensor once, whoever asks: by identity, as storages are. The rules are autograd's, per operation:

    x W^T                keeps x (in the type of products) and W      x + y, c x, casts, views   keep nothing
    x * y                keeps both factors                           exp, tanh, sigmoid, relu   keep what they give
    x^2, silu, gelu      keep x                                       softmax, rsqrt             keep what they give

A factor is kept only for the gradient of the other one. Parameters are not counted, for they are there anyway; their copies
in bfloat16 are, once each, apart from the activations. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Literal

from anyformer.plan import Plan
from anyformer.tally import Shape

Number = Literal["fp32", "bf16", "int64", "bool"]
SIZES: dict[Number, int] = {"fp32": 4, "bf16": 2, "int64": 8, "bool": 1}


class UnpricedError(NotImplementedError):
    """A part that does not say what it keeps for backward."""


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


@dataclass
class Tape:
    """`kept`: name of every tensor kept, by who asked first; `casts`: parameters in another type, by path.

    `shape`: of the stack that is computed; `source`: what its cross-attentions read; `path`: the part that is computed;
    `owner`: the same for its parameters, where layers share them. `once`: what all layers of the stack share; `tokens`: what
    was embedded; `common`: what outlives the layer that made it; `entered`: the path and the input of every layer.
    `scoreless`: every attention by a kernel that writes no scores, masks or biases of them, whatever torch's would do.
    """

    plan: Plan
    shape: Shape
    path: str = ""
    owner: str = ""
    source: Held | None = None
    variant: str = ""
    training: bool = True
    scoreless: bool = False
    kept: dict[Held, str] = field(default_factory=dict)
    casts: dict[str, Held] = field(default_factory=dict)
    once: dict[Hashable, Held] = field(default_factory=dict)
    memories: dict[str, Source] = field(default_factory=dict)
    tokens: dict[str, Held] = field(default_factory=dict)
    common: dict[Held, None] = field(default_factory=dict)
    entered: list[tuple[str, Held]] = field(default_factory=list)

    @property
    def products(self) -> Number:
        """The type of matrix products."""
        return "bf16" if self.plan.precision == "bf16" else "fp32"

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

    def parameter(self, elements: int, number: Number) -> Held:
        """A parameter, or a copy of it made for one call."""
        return Held(elements, number, parameter=number == "fp32")

    def shared(self, key: Hashable, make: Callable[[], Held]) -> Held:
        """What all layers of a stack share."""
        if key not in self.once:
            self.once[key] = make()
            self.common[self.once[key]] = None
        return self.once[key]

    def linear(self, name: str, x: Held, inputs: int, outputs: int, *, weight: str | None = None) -> Held:
        """x W^T, x (..., inputs); `weight`: the path of W, where it is another part's."""
        read = self.cast(self.like(x) if x.apart else x, self.products)
        self.keep(f"{name}.input", read)
        if x.learns and self.products != "fp32":
            path = weight or f"{self.owner}{name}.weight"
            self.casts.setdefault(path, Held(inputs * outputs, self.products))
        return Held(x.elements // inputs * outputs, self.products)

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
