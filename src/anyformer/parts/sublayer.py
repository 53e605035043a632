"""The protocol of sublayers that stacks and blocks rely on; the defaults describe one that mixes no positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

import torch
from torch import nn

from anyformer.describe import DescriptionError, Registry
from anyformer.operations import Shape, Tally
from anyformer.parts.call.shared import Read
from anyformer.parts.call.state import State
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sketch import Drawn
from anyformer.plan import Plan

N = TypeVar("N", bound=str)


def each_once(names: tuple[N, ...], known: tuple[N, ...]) -> tuple[N, ...]:
    """The named projections in the order of `known`; refuses one that is named twice."""
    if len(set(names)) < len(names):
        raise ValueError(f"names a projection twice: {list(names)}")
    return tuple(name for name in known if name in names)


def head_width(width: int, heads: int, given: int | None) -> int:
    """E: the given width of a head, or D / H, which must be whole."""
    if given is not None:
        return given
    if width % heads:
        raise DescriptionError(f"heads must divide the width or head_width be given, got heads = {heads} and width = {width}")
    return width // heads


@dataclass(frozen=True)
class Traits:
    """Terms that tables and pictures of architectures use for a sublayer."""

    mixing: str | None = None
    """How it moves information along its own sequence (`GQA`, `MLA`); None where it does not."""
    position: str | None = None
    """How it tells positions apart (`RoPE`, `NoPE`); None where nothing has to be told apart."""
    activation: str | None = None
    """The activation of its feed-forward network (`SwiGLU`)."""
    stability: tuple[str, ...] = ()
    """Its techniques for stable training (`QK-norm`)."""


@dataclass(frozen=True)
class Network:
    """A feed-forward network, or a mixture of them."""

    width: int
    """F."""
    gated: bool
    experts: int | None = None
    """Of a mixture: how many there are."""
    chosen: int | None = None
    """Of a mixture: how many of them a token passes."""
    fields: tuple[str, ...] = ("width",)
    """Paths in the sublayer of all widths that grow with F."""


@dataclass(frozen=True)
class Resizing:
    """How a sublayer bounds the architecture's sizes, and which of its own sizes may change."""

    divisor: int = 1
    """A number that must divide the width of the stream: heads, where the width is split among them."""
    network: Network | None = None


class Sublayer(Drawn):
    """A description that a branch can hold: (B, T, D) -> (B, T, D)."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that it reads beside the stream: of the call, of its stack, of earlier layers."""
        return ()

    @property
    def leaves(self) -> Mapping[str, int]:
        """The values that it leaves for later layers, by name with the size that a `Read` asks for."""
        return {}

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The masks of its attentions."""
        return ()

    @property
    def traits(self) -> Traits:
        """The terms that tables and pictures use for it."""
        return Traits()

    @property
    def resizing(self) -> Resizing:
        """Its sizes that follow a change of the architecture's width or of its feed-forward networks."""
        return Resizing()

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        """Counts that the degree of tensor parallelism must divide besides the sides of weights, so that no head is split."""
        return ()

    def resolved(self, width: int) -> Self:
        """The same, with a number for every size that follows from others."""
        return self

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def build(self, width: int, plan: Plan, name: str) -> nn.Module:
        """The module; `name` is its path in the model."""
        raise NotImplementedError

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        """Everything it declares for one call."""
        raise NotImplementedError

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> State | None:
        """Preallocated decode state, None without memory."""
        return None
