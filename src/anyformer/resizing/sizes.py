"""An architecture at another width, depth or feed-forward width, and the values that these can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import lcm
from typing import Literal

from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.model.at_width import with_networks
from anyformer.parts import Block, Stack
from anyformer.parts.layers.order import write_order
from anyformer.parts.sublayer import Network

Knob = Literal["width", "depth", "ffn"]
"""The sizes that may change: D, the layers of the stack that the head reads, F of the network that most layers have."""
MOST = {"width": 1 << 17, "depth": 1 << 10, "ffn": 1 << 20}
Period = tuple[int, int, int]
"""The numbers of layers before, in, and after the repeated part of an order."""


@dataclass(frozen=True)
class Sizes:
    """D, L and F; `ffn` is 0 if no layer has a feed-forward network."""

    width: int
    depth: int
    ffn: int


def sizes(architecture: Architecture) -> Sizes:
    """Its present sizes. With several stacks or networks: those of the last stack, and of its commonest network."""
    network = _commonest(architecture)
    return Sizes(architecture.width, architecture.output_stack.depth, network.width if network else 0)


def lattice(architecture: Architecture, knob: Knob, multiple: int = 8) -> range:
    """The values that a size may take, in rising order; none or one if it cannot change.

    Width: multiples of `multiple` that all heads share evenly; the width of a head stays a multiple of 8 if it is one, else
    even (rotary positions need pairs). Depth: whole repetitions of the repeated part of the order. FFN width: multiples.
    """
    if knob == "depth":
        before, period, after = period_of(architecture.output_stack.layers)
        depth = architecture.output_stack.depth
        shortest = before + after + (depth - before - after) % period + period
        return range(shortest, MOST["depth"] if 2 * period <= depth else shortest + 1, period)
    if knob == "ffn":
        return range(multiple, MOST["ffn"], multiple) if _commonest(architecture) else range(0)
    step = lcm(multiple, *(_head_step(architecture.width, heads) for heads in _divisors(architecture)))
    return range(step, MOST["width"], step)


def resized(architecture: Architecture, to: Sizes, multiple: int = 8) -> Architecture:
    """The architecture with other sizes; `DescriptionError` where its parts do not fit them.

    The number of heads stays; a head width that is not written out is D / H. Other stacks and networks stay in proportion to
    the one that is sized, rounded to `multiple`.
    """
    now = sizes(architecture)
    if to == now:
        return architecture

    def network_of(width: int) -> int:
        return width if to.ffn == now.ffn else max(1, round(width * to.ffn / now.ffn / multiple)) * multiple

    stacks = {
        name: _resized_stack(stack, round(stack.depth * to.depth / now.depth), to.depth == now.depth, network_of)
        for name, stack in architecture.stacks.items()
    }
    later = architecture.mtp
    if later is not None and later.block is not None:
        later = later.but(block=with_networks(later.block, network_of))
    return architecture.but(width=to.width, mtp=later, **stacks)


def _resized_stack(stack: Stack, depth: int, same_depth: bool, network_of: Callable[[int], int]) -> Stack:
    variants: Named[Block] = Named({name: with_networks(block, network_of) for name, block in stack.variants.items()})
    return stack.but(variants=variants, order=stack.order if same_depth else write_order(lengthened(stack.layers, depth)))


def lengthened(layers: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """The order with about `depth` layers: its repeated part occurs more or less often, but at least once."""
    before, period, after = period_of(layers)
    times = round((depth - len(layers)) / period)
    least = 1 - (len(layers) - before - after) // period
    middle = layers[before : len(layers) - after]
    count = len(middle) + max(times, least) * period
    return (*layers[:before], *(middle[i % period] for i in range(count)), *layers[len(layers) - after :])


@cache
def period_of(layers: tuple[str, ...]) -> Period:
    """The fewest layers (before, repeated, after) from which the order follows; all layers, once, if none repeat.

    dense*3 moe*58 -> (3, 1, 0); (local*5 global)*10 local*2 -> (0, 6, 0).
    """
    count = len(layers)
    best = (0, count, 0)
    for period in range(1, count // 2 + 1):
        before = 0
        for repeats, run in groupby(layers[i] == layers[i + period] for i in range(count - period)):
            # A run of n layers that equal the one a period later makes n + period layers of the middle.
            length = len(list(run))
            after = count - before - length - period
            if repeats and length >= period and before + period + after < sum(best):
                best = (before, period, after)
            before += length
    return best


def networks(architecture: Architecture) -> Iterator[tuple[int, Network]]:
    """Each feed-forward network with the number of its layers, those of the last stack first."""
    for stack in reversed(architecture.stacks.values()):
        for name, block in stack.variants.items():
            for sublayer in block.sublayers:
                if (network := sublayer.resizing.network) is not None:
                    yield stack.layers.count(name), network


def _commonest(architecture: Architecture) -> Network | None:
    return max(networks(architecture), key=lambda counted: counted[0], default=(0, None))[1]


def _divisors(architecture: Architecture) -> Iterator[int]:
    """Heads among which the width is split, per sublayer."""
    for stack in architecture.stacks.values():
        for block in stack.variants.values():
            yield from (sublayer.resizing.divisor for sublayer in block.sublayers)


def _head_step(width: int, heads: int) -> int:
    if heads == 1:
        return 1
    return heads * (8 if width // heads % 8 == 0 else 2)
