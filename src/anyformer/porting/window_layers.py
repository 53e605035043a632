"""Windows in some layers, as a change of a description."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import Named, change
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Stack, Window


@dataclass(frozen=True)
class WindowLayers:
    """A window of `size` tokens in the decoder's layers of these numbers; the others see what they saw."""

    layers: tuple[int, ...]
    size: int

    def __call__(self, architecture: Architecture) -> Architecture:
        decoder = architecture.decoder
        return architecture if decoder is None else architecture.but(decoder=self._stack(decoder))

    def _stack(self, stack: Stack) -> Stack:
        order = [f"{name}_window" if at in self.layers else name for at, name in enumerate(stack.layers)]
        made = {**stack.variants, **{f"{name}_window": self._block(block) for name, block in stack.variants.items()}}
        used = set(order)
        return stack.but(variants=Named({name: made[name] for name in made if name in used}), order=" ".join(order))

    def _block(self, block: Block) -> Block:
        for name, branch in block.branches.items():
            if isinstance(branch.sublayer, Attention):
                block = change(block, f"{name}.sublayer", branch.sublayer.but(mask=Window(size=self.size)))
        return block
