"""Changes that make one family's description another's, as frozen values that a file can write out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from anyformer.describe import DescriptionError, Named, PartSet, UserError, Value, change, change_all, get
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    FeedForward,
    LayerNorm,
    QKNorm,
    RMSNorm,
    Stack,
    output_norm,
    parallel,
    post_norm,
    pre_norm,
    sandwich,
)
from anyformer.parts.norms.norm import Norm

Wiring = Literal["pre", "post", "output", "sandwich", "parallel", "parallel_own"]
_WIRINGS: dict[str, Callable[..., Block]] = {"pre": pre_norm, "post": post_norm, "output": output_norm, "sandwich": sandwich}


class ArchitectureChange(Protocol):
    """One change: an architecture to another."""

    def __call__(self, architecture: Architecture) -> Architecture: ...


def blocks_changed(architecture: Architecture, of: Callable[[Block], Block]) -> Architecture:
    """The architecture with another block in place of every one."""

    def whole(stack: Stack) -> Stack:
        return stack.but(variants=Named({name: of(block) for name, block in stack.variants.items()}))

    return architecture.but(**{name: whole(stack) for name, stack in architecture.stacks.items()})


def with_value(block: Block, path: str, value: Any) -> Block:
    """The block with a value at a path; the block itself if it has no such path."""
    try:
        get(block, path)
    except DescriptionError:
        return block
    return change(block, path, value)


@dataclass(frozen=True)
class Put:
    """A value at a path in every layer that has the path, or at one of the architecture (`head.scale`, `decoder.dropout`)."""

    path: str
    value: Any

    def __call__(self, architecture: Architecture) -> Architecture:
        if self.path.partition(".")[0] in type(architecture).model_fields:
            return change(architecture, self.path, self.value)
        return blocks_changed(architecture, lambda block: with_value(block, self.path, self.value))


@dataclass(frozen=True)
class PutAll:
    """Values at paths of the architecture, all at once: only the whole must be valid. `values`: (path, value) in order."""

    values: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> PutAll:
        return cls(tuple(values.items()))

    def __call__(self, architecture: Architecture) -> Architecture:
        return change_all(architecture, dict(self.values))


@dataclass(frozen=True)
class Biased:
    """The projections of a branch that add biases: `Biased("attention", ("query", "key", "value"))`."""

    branch: str
    projections: tuple[str, ...]

    def __call__(self, architecture: Architecture) -> Architecture:
        return Put(f"{self.branch}.bias", self.projections)(architecture)


@dataclass(frozen=True)
class Wired:
    """Where the norms of every layer stand; the norm is the first that a layer has."""

    wiring: Wiring

    def __call__(self, architecture: Architecture) -> Architecture:
        return blocks_changed(architecture, self._block)

    def _block(self, block: Block) -> Block:
        norm = next(norms_in(block), None)
        if norm is None:
            raise UserError(f"a layer without a norm cannot be wired as {self.wiring}")
        sublayers = [branch.sublayer for branch in block.branches.values()]
        dropout = max(branch.dropout for branch in block.branches.values())
        if self.wiring in ("parallel", "parallel_own"):
            return parallel(norm, *sublayers, dropout=dropout, shared_norm=self.wiring == "parallel")
        return _WIRINGS[self.wiring](norm, *sublayers, dropout=dropout)


def norms_in(block: Block) -> Iterator[Norm]:
    """The norms around the branches of a block, in order."""
    for step in block.steps:
        branches = list(step.branches.values())
        found = (step.norm_before, *(each.norm_before for each in branches), step.norm_branches)
        found += (*(each.norm_after for each in branches), step.norm_after)
        yield from (norm for norm in found if norm is not None)


@dataclass(frozen=True)
class Normed:
    """Other norms everywhere: their kind, gain and bias, with the epsilon of those that stand there; `eps` replaces it."""

    kind: Literal["rms_norm", "layer_norm"] = "rms_norm"
    gain: Literal["weight", "one_plus_weight", "none"] = "weight"
    bias: bool = False
    eps: float | None = None

    def __call__(self, architecture: Architecture) -> Architecture:
        made: Architecture = _replaced(architecture, self._norm)
        return made

    def _norm(self, norm: RMSNorm | LayerNorm) -> Norm:
        kind = RMSNorm if self.kind == "rms_norm" else LayerNorm
        return kind(eps=norm.eps if self.eps is None else self.eps, gain=self.gain, bias=self.bias)


def _replaced(value: Any, of: Callable[[Any], Any]) -> Any:
    """A description with another norm in place of every one in it."""
    if isinstance(value, RMSNorm | LayerNorm):
        return of(value)
    if isinstance(value, PartSet):
        return PartSet(*(_replaced(each, of) for each in value.values()))
    if isinstance(value, Named):
        return Named({name: _replaced(each, of) for name, each in value.items()})
    if isinstance(value, tuple):
        return tuple(_replaced(each, of) for each in value)
    if isinstance(value, Value):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        made = {name: _replaced(each, of) for name, each in fields.items()}
        return value if made == fields else value.but(**{name: made[name] for name in fields if made[name] != fields[name]})
    return value


@dataclass(frozen=True)
class HeadsNormed:
    """Norms of queries and keys: of every head with one gain (`head`), with a gain each (`each_head`), or of the whole
    `projection`; None takes them away. The norm is the first of the layer."""

    over: Literal["head", "each_head", "projection"] | None
    at: Literal["before_rotary", "after_rotary"] = "before_rotary"

    def __call__(self, architecture: Architecture) -> Architecture:
        return blocks_changed(architecture, self._block)

    def _block(self, block: Block) -> Block:
        for name, branch in block.branches.items():
            if isinstance(branch.sublayer, Attention):
                norm = next(norms_in(block), RMSNorm())
                part = None if self.over is None else QKNorm(norm=norm, over=self.over, at=self.at)
                block = change(block, f"{name}.sublayer", branch.sublayer.but(qk_norm=part))
        return block


@dataclass(frozen=True)
class RotaryInWindows:
    """Rotary positions in layers whose attention has a window alone; the others have none."""

    def __call__(self, architecture: Architecture) -> Architecture:
        return blocks_changed(architecture, self._block)

    def _block(self, block: Block) -> Block:
        for name, branch in block.branches.items():
            if isinstance(branch.sublayer, Attention) and not branch.sublayer.mask.window:
                block = change(block, f"{name}.sublayer", branch.sublayer.but(rotary=None))
        return block


@dataclass(frozen=True)
class Gated:
    """Whether feed-forward networks have a gate; biases of one that goes go with it."""

    gated: bool

    def __call__(self, architecture: Architecture) -> Architecture:
        return blocks_changed(architecture, self._block)

    def _block(self, block: Block) -> Block:
        for name, branch in block.branches.items():
            if isinstance(branch.sublayer, FeedForward):
                bias = tuple(side for side in branch.sublayer.bias if self.gated or side != "gate")
                block = change(block, f"{name}.sublayer", branch.sublayer.but(gated=self.gated, bias=bias))
        return block


def changed_all(architecture: Architecture, changes: tuple[ArchitectureChange, ...]) -> Architecture:
    """The architecture after changes, one after the other."""
    for each in changes:
        architecture = each(architecture)
    return architecture
