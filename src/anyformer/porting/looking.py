"""The layers, the attentions and the norms of an architecture."""

from __future__ import annotations

from collections.abc import Iterator

from anyformer.describe import DescriptionError, get
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Experts, FeedForward, Rotary
from anyformer.parts.norms.norm import Norm
from anyformer.porting.changes import norms_in


def heads_in(architecture: Architecture | None) -> Iterator[Attention]:
    """The attentions of an architecture."""
    for block in blocks_in(architecture):
        yield from (each for each in block.sublayers if isinstance(each, Attention))


def rotaries_in(architecture: Architecture | None) -> Iterator[tuple[str, Rotary]]:
    """(branch, its rotary positions) of all layers in order."""
    for block in blocks_in(architecture):
        for name, branch in block.branches.items():
            try:
                rotary = get(branch.sublayer, "rotary")
            except DescriptionError:
                continue
            if isinstance(rotary, Rotary):
                yield name, rotary


def of_another(stack: str, name: str, architecture: Architecture) -> bool:
    """Whether a module's name speaks of another stack than this one: `model.decoder.layer_norm` is none of the encoder's."""
    return any(f"{other}." in name for other in architecture.stacks if other != stack)


def blocks_in(architecture: Architecture | None) -> Iterator[Block]:
    """The different layers of an architecture."""
    for stack in architecture.stacks.values() if architecture else ():
        yield from stack.variants.values()


def norms_of_layer(architecture: Architecture | None) -> Iterator[Norm]:
    """The norms around branches, of all layers in order."""
    for block in blocks_in(architecture):
        yield from norms_in(block)


def activations_in(architecture: Architecture | None) -> Iterator[str]:
    """The activations of networks and experts, of all layers in order."""
    for block in blocks_in(architecture):
        yield from (each.activation for each in block.sublayers if isinstance(each, FeedForward | Experts))
