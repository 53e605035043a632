"""The same architecture at another width, depth or feed-forward width, and which of these it can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import lcm
from typing import Any, Literal, TypeVar

from anyformer.describe import Named, Value
from anyformer.model import Architecture
from anyformer.parts import Block, Stack
from anyformer.parts.layers.order import write_order
from anyformer.parts.sublayer import Network

V = TypeVar("V", bound=Value)
Knob = Literal["width", "depth", "ffn"]
"""What may move: D, the layers of the stack that the head reads, F of the network that most layers have."""
MOST = {"width": 1 << 17, "depth": 1 << 10, "ffn": 1 << 20}
Period = tuple[int, int, int]
"""Layers before, of, and after what an order of layers repeats."""


@dataclass(frozen=True)
class Sizes:
    """D, L and F; `ffn` is 0 where no layer has a feed-forward network."""

    width: int
    depth: int
    ffn: int


def sizes(architecture: Architecture) -> Sizes:
    """Its sizes as they are. With several stacks or networks: those of the last stack, and of its commonest network."""
    network = _commonest(architecture)
    return Sizes(architecture.width, architecture.output_stack.depth, network.width if network else 0)


def lattice(architecture: Architecture, knob: Knob, multiple: int = 8) -> range:
    """The values that a size may take, in rising order; empty or one where it cannot move.

    Width: multiples of `multiple` that all heads share evenly, with heads as wide as a multiple of 8 where they are now, else
    even (rotary turns pairs). Depth: whole repetitions of what the order of layers repeats. FFN width: multiples.
    """
    if knob == "depth":
        before, period, after = period_of(architecture.output_stack.layers)
        depth = architecture.output_stack.depth
        shortest = before + after + (depth - before - after) % period + period
        return range(shortest, MOST["depth"] if 2 * period <= depth else shortest + 1, period)
    if knob == "ffn":
        return range(multiple, MOST["ffn"], multiple) if _commonest(architecture) else range(0)
    step = lcm(multiple, *(_head_step(architecture.width, heads) for heads in _sharing(architecture)))
    return range(step, MOST["width"], step)


def resized(architecture: Architecture, to: Sizes, multiple: int = 8) -> Architecture:
    """The architecture with other sizes; `DescriptionError` where its parts do not fit them.

    Heads keep their number; a head width that is not written out follows D / H. Other stacks and networks keep their
    proportion to the one that is sized, rounded to `multiple`. Factors that are roots of a size become those of the new one.
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
    up, down = {now.width**0.5: to.width**0.5}, {now.width**-0.5: to.width**-0.5}
    deeper = {(times * now.depth) ** -0.5: (times * to.depth) ** -0.5 for times in (1, 2)}
    second = architecture.decoder_embedding
    return architecture.but(
        width=to.width,
        embedding=_swapped(architecture.embedding, up),
        decoder_embedding=None if second is None else _swapped(second, up),
        head=None if architecture.head is None else _swapped(architecture.head, down),
        initialisation=_swapped(architecture.initialisation, down | deeper),
        **stacks,
    )


def _resized_stack(stack: Stack, depth: int, keeps_depth: bool, network_of: Callable[[int], int]) -> Stack:
    variants: Named[Block] = Named({name: _resized_block(block, network_of) for name, block in stack.variants.items()})
    return stack.but(variants=variants, order=stack.order if keeps_depth else write_order(lengthened(stack.layers, depth)))


def _resized_block(block: Block, network_of: Callable[[int], int]) -> Block:
    widths = [branch.sublayer.network for branch in block.branches.values()]
    if all(network is None or network_of(network.width) == network.width for network in widths):
        return block
    steps = []
    for step in block.steps:
        branches = {}
        for name, branch in step.branches.items():
            network = branch.sublayer.network
            wide = branch.sublayer if network is None else branch.sublayer.with_network(network_of(network.width))
            branches[name] = branch.but(sublayer=wide)
        steps.append(step.but(branches=Named(branches)))
    return block.but(steps=tuple(steps))


def lengthened(layers: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """The order of layers with about `depth` of them: what it repeats stands more or less often, at least once."""
    before, period, after = period_of(layers)
    times = round((depth - len(layers)) / period)
    least = 1 - (len(layers) - before - after) // period
    middle = layers[before : len(layers) - after]
    long = len(middle) + max(times, least) * period
    return (*layers[:before], *(middle[i % period] for i in range(long)), *layers[len(layers) - after :])


@cache
def period_of(layers: tuple[str, ...]) -> Period:
    """The fewest layers (before, repeated, after) from which the order follows; the whole, once, where nothing repeats.

    dense*3 moe*58 -> (3, 1, 0); (local*5 global)*10 local*2 -> (0, 6, 0).
    """
    count = len(layers)
    best = (0, count, 0)
    for period in range(1, count // 2 + 1):
        repeats = [layers[i] == layers[i + period] for i in range(count - period)]
        for before, length in _runs(repeats):
            # A run of n positions that repeat is n + period layers of the middle, with every variant at least once outside it.
            after = count - before - length - period
            if length >= period and before + period + after < sum(best):
                best = (before, period, after)
    return best


def _runs(flags: list[bool]) -> Iterator[tuple[int, int]]:
    """(start, length) of each run of true flags."""
    start = 0
    for i, flag in enumerate([*flags, False]):
        if not flag:
            if i > start:
                yield start, i - start
            start = i + 1


def networks(architecture: Architecture) -> Iterator[tuple[int, Network]]:
    """Each feed-forward network with the number of layers that have it, the last stack's first."""
    for stack in reversed(architecture.stacks.values()):
        for name, block in stack.variants.items():
            for sublayer in block.sublayers:
                if sublayer.network is not None:
                    yield stack.layers.count(name), sublayer.network


def _commonest(architecture: Architecture) -> Network | None:
    return max(networks(architecture), key=lambda found: found[0], default=(0, None))[1]


def _sharing(architecture: Architecture) -> Iterator[int]:
    """Heads among which the width is shared."""
    for stack in architecture.stacks.values():
        for block in stack.variants.values():
            yield from (sublayer.divides_width for sublayer in block.sublayers)


def _head_step(width: int, heads: int) -> int:
    if heads == 1:
        return 1
    return heads * (8 if width // heads % 8 == 0 else 2)


def _swapped(value: V, numbers: Mapping[float, float]) -> V:
    """The value with some of its numbers replaced, wherever they stand."""
    changes: dict[str, Any] = {}
    for name in type(value).model_fields:
        inner = getattr(value, name)
        new = _swapped(inner, numbers) if isinstance(inner, Value) else numbers.get(inner) if type(inner) is float else None
        if new is not None and new != inner:
            changes[name] = new
    return value.but(**changes) if changes else value
