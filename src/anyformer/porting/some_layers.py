"""Changes of some layers alone: which variants these become, a value at a path in them, networks where experts stood."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import Block, Experts, FeedForward
from anyformer.porting.changes import blocks_changed, with_value


def in_layers(
    architecture: Architecture, name: str, layers: Collection[int], word: str, of: Callable[[Block], Block]
) -> Architecture:
    """The architecture with other blocks in the layers of these numbers of one stack; as it is without that stack.

    `name`: of the stack; `word`: what is added to the names of the layers' variants.
    """
    stack = architecture.stacks.get(name)
    if stack is None:
        return architecture
    order = [f"{variant}_{word}" if at in layers else variant for at, variant in enumerate(stack.layers)]
    changed = {f"{variant}_{word}": of(stack.variants[variant]) for at, variant in enumerate(stack.layers) if at in layers}
    made, used = {**stack.variants, **changed}, set(order)
    variants = {variant: made[variant] for variant in made if variant in used}
    return architecture.but(**{name: stack.but(variants=Named(variants), order=" ".join(order))})


@dataclass(frozen=True)
class PutLayers:
    """A value at a path of the blocks of these layers of one stack; the others stay as they are."""

    layers: tuple[int, ...]
    path: str
    value: Any
    stack: str = "decoder"

    def __call__(self, architecture: Architecture) -> Architecture:
        word = f"{self.path.replace('.', '_')}_{min(self.layers)}"
        return in_layers(architecture, self.stack, self.layers, word, self._block)

    def _block(self, block: Block) -> Block:
        return with_value(block, self.path, self.value)


@dataclass(frozen=True)
class WithoutBranch:
    """No such branch in the layers of these numbers of one stack; a step of nothing else goes with it."""

    layers: tuple[int, ...]
    branch: str
    stack: str = "decoder"

    def __call__(self, architecture: Architecture) -> Architecture:
        return in_layers(architecture, self.stack, self.layers, f"no_{self.branch}", self._block)

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
