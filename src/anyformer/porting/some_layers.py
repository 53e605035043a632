"""Changes of some layers alone: which variants these become, a value at a path in them, networks where experts stood."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import Block, Experts, FeedForward, Stack
from anyformer.porting.changes import blocks_changed, with_value


def in_layers(stack: Stack, layers: Collection[int], word: str, of: Callable[[Block], Block]) -> Stack:
    """The stack with other blocks in the layers of these numbers; `word`: what is added to the names of their variants."""
    order = [f"{name}_{word}" if at in layers else name for at, name in enumerate(stack.layers)]
    changed = {f"{name}_{word}": of(stack.variants[name]) for at, name in enumerate(stack.layers) if at in layers}
    made, used = {**stack.variants, **changed}, set(order)
    return stack.but(variants=Named({name: made[name] for name in made if name in used}), order=" ".join(order))


@dataclass(frozen=True)
class PutLayers:
    """A value at a path of the blocks of these layers of one stack; the others stay as they are."""

    layers: tuple[int, ...]
    path: str
    value: Any
    stack: str = "decoder"

    def __call__(self, architecture: Architecture) -> Architecture:
        stack = architecture.stacks.get(self.stack)
        if stack is None:
            return architecture
        word = f"{self.path.replace('.', '_')}_{min(self.layers)}"
        return architecture.but(**{self.stack: in_layers(stack, self.layers, word, self._block)})

    def _block(self, block: Block) -> Block:
        return with_value(block, self.path, self.value)


@dataclass(frozen=True)
class WithoutBranch:
    """No such branch in the layers of these numbers of one stack; a step of nothing else goes with it."""

    layers: tuple[int, ...]
    branch: str
    stack: str = "decoder"

    def __call__(self, architecture: Architecture) -> Architecture:
        stack = architecture.stacks.get(self.stack)
        if stack is None:
            return architecture
        return architecture.but(**{self.stack: in_layers(stack, self.layers, f"no_{self.branch}", self._block)})

    def _block(self, block: Block) -> Block:
        rest = [
            step.but(branches=Named({name: each for name, each in step.branches.items() if name != self.branch}))
            if self.branch in step.branches and len(step.branches) > 1
            else step
            for step in block.steps
        ]
        kept = tuple(step for step in rest if self.branch not in step.branches)
        return block.but(steps=kept) if kept else block


@dataclass(frozen=True)
class DenseLayers:
    """A network of the size of one expert in every layer that had experts, in a branch `feedforward`."""

    def __call__(self, architecture: Architecture) -> Architecture:
        return blocks_changed(architecture, self._block)

    def _block(self, block: Block) -> Block:
        steps = []
        for step in block.steps:
            branches = {
                "feedforward" if isinstance(branch.sublayer, Experts) else name: branch.but(sublayer=_network(branch.sublayer))
                for name, branch in step.branches.items()
            }
            steps.append(step.but(branches=Named(branches)))
        return block.but(steps=tuple(steps))


def _network(sublayer: Any) -> Any:
    """The network that one of the experts is; any other sublayer as it is."""
    if not isinstance(sublayer, Experts):
        return sublayer
    return FeedForward(width=sublayer.width, activation=sublayer.activation, gated=sublayer.gated, bias=sublayer.bias)
