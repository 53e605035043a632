"""An architecture at another width: its networks in proportion, its number of heads as it is."""

from __future__ import annotations

from collections.abc import Callable

from anyformer.describe import Named, change_all, get
from anyformer.model.architecture import Architecture
from anyformer.parts.layers.block import Block
from anyformer.parts.sublayer import Sublayer


def at_width(architecture: Architecture, width: int) -> Architecture:
    """The architecture with D = `width`, every feed-forward network in proportion, and all else as it is written.

    The number of heads stays; a head width that is not written out is D / H. `DescriptionError` where parts do not fit.
    """
    now = architecture.width

    def network_of(ffn: int) -> int:
        return max(1, round(ffn * width / now))

    later = architecture.mtp
    if later is not None and later.block is not None:
        later = later.but(block=with_networks(later.block, network_of))
    stacks = {
        name: stack.but(
            variants=Named({variant: with_networks(block, network_of) for variant, block in stack.variants.items()})
        )
        for name, stack in architecture.stacks.items()
    }
    return architecture.but(width=width, mtp=later, **stacks)


def with_networks(block: Block, network_of: Callable[[int], int]) -> Block:
    """The block with other widths of its feed-forward networks; itself where none changes."""
    widths = [branch.sublayer.resizing.network for branch in block.branches.values()]
    if all(network is None or network_of(network.width) == network.width for network in widths):
        return block
    steps = []
    for step in block.steps:
        branches = {}
        for name, branch in step.branches.items():
            branches[name] = branch.but(sublayer=_widened(branch.sublayer, network_of))
        steps.append(step.but(branches=Named(branches)))
    return block.but(steps=tuple(steps))


def _widened(sublayer: Sublayer, network_of: Callable[[int], int]) -> Sublayer:
    """The sublayer with another width of its feed-forward network, and of every part that grows with it."""
    network = sublayer.resizing.network
    if network is None:
        return sublayer
    times = network_of(network.width) / network.width
    return change_all(sublayer, {path: max(1, round(get(sublayer, path) * times)) for path in network.fields})
