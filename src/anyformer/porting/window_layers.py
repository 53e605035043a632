"""Windows in some layers, as a change of a description."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import change
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Window
from anyformer.porting.some_layers import in_layers


@dataclass(frozen=True)
class WindowLayers:
    """A window of `size` tokens in the decoder's layers of these numbers; the others see what they saw."""

    layers: tuple[int, ...]
    size: int

    def __call__(self, architecture: Architecture) -> Architecture:
        return in_layers(architecture, "decoder", self.layers, "window", self._block)

    def _block(self, block: Block) -> Block:
        for name, branch in block.branches.items():
            if isinstance(branch.sublayer, Attention):
                block = change(block, f"{name}.sublayer", branch.sublayer.but(mask=Window(size=self.size)))
        return block
