"""The architecture for which a configuration is written, and the values at paths in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anyformer.describe import DescriptionError, get
from anyformer.huggingface.errors import MismatchError
from anyformer.model import Architecture
from anyformer.parts import Block, Stack


@dataclass(frozen=True)
class Target:
    """An architecture and the stack that paths refer to: `encoder`, `decoder`, or by default the one that the head reads."""

    architecture: Architecture
    side: str = ""

    def __call__(self, path: str) -> Any:
        """The value at a path; `MismatchError` where there is none.

        `attention.heads` is looked up in the first layer that has a branch of that name, `steps.0.norm_after` in the first
        layer, `stack.final_norm` in the stack, `encoder:attention.heads` in a stack by name, `head.tied` in the architecture.
        `embedding.scale` and `head.scale` are numbers, also where they follow from the width.
        """
        side, _, rest = path.rpartition(":")
        if side:
            return Target(self.architecture, side)(rest)
        first, _, inner = path.partition(".")
        try:
            if first == "stack":
                return get(self.stack, inner)
            if first in type(self.architecture).model_fields:
                return get(self.architecture.resolved() if path.endswith(".scale") else self.architecture, path)
            return get(self._block_with(first), path)
        except DescriptionError:
            raise MismatchError(f"the architecture has no {path}") from None

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a path; `default` where there is none."""
        try:
            return self(path)
        except MismatchError:
            return default

    def number(self, path: str) -> Any:
        """The number at a path; `MismatchError` where it is None or missing."""
        value = self(path)
        if value is None:
            raise MismatchError(f"the architecture leaves {path} out")
        return value

    def each(self, path: str) -> list[Any]:
        """The values at a path of a branch, one for every layer that has the branch."""
        branch = path.partition(".")[0]
        try:
            return [get(block, path) for block in self.blocks if branch in block.branches]
        except DescriptionError:
            raise MismatchError(f"the architecture has no {path} in one of its layers") from None

    @property
    def stack(self) -> Stack:
        stacks = self.architecture.stacks
        if self.side and self.side not in stacks:
            raise MismatchError(f"the architecture has no {self.side}")
        return stacks[self.side] if self.side else self.architecture.output_stack

    @property
    def blocks(self) -> list[Block]:
        """The layers of the stack, first to last."""
        return [self.stack.variants[name] for name in self.stack.layers]

    def depth(self, side: str = "") -> int:
        """L, of the stack named, or of this one."""
        return Target(self.architecture, side or self.side).stack.depth

    def has(self, branch: str) -> bool:
        """Whether any layer has the branch."""
        return any(branch in block.branches for block in self.blocks)

    def branches(self, names: dict[str, str]) -> list[str]:
        """For every layer the value in `names` of the first of these branches that it has."""
        by_layer = [[value for name, value in names.items() if name in block.branches] for block in self.blocks]
        if not all(by_layer):
            raise MismatchError(f"a layer has none of the branches {', '.join(names)}")
        return [values[0] for values in by_layer]

    def _block_with(self, branch: str) -> Block:
        for block in self.blocks:
            if branch in block.branches or branch == "steps":
                return block
        raise MismatchError(f"no layer has a branch {branch!r}")


Place = str | Callable[[Target], Any]
"""Where in an architecture the value of a key stands: a path, or a function."""


def value_at(target: Target, place: Place) -> Any:
    """The value of a key for an architecture; `MismatchError` where its place is empty."""
    return target(place) if isinstance(place, str) else place(target)


def nowhere(target: Target) -> Any:
    """The place of a key that is read and never written: an older spelling."""
    raise MismatchError("nothing is written under an older spelling")
