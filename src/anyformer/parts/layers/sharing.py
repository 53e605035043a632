"""What the layers of a stack must find of one another, and which of them a gradient reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyformer.describe import DescriptionError, Problem
from anyformer.parts.call.shared import SOURCE, STREAM, TOKENS
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.streams import Streams


def check_reads(layers: Sequence[str], variants: Mapping[str, Block], leaves: Mapping[str, int], *, streams: bool) -> None:
    """Refuse a layer that reads a value which neither its stack nor an earlier layer leaves, and one that is never read.

    `leaves`: what the stack itself leaves, by name with sizes; `streams`: whether there are several, of which none is the
    stream behind a layer.
    """
    left: dict[str | None, Mapping[str, int]] = {None: leaves}
    for i, variant in enumerate(layers):
        if variant in left:
            continue
        for name, branch in variants[variant].branches.items():
            for read in branch.reads:
                problem = None if read in (SOURCE, TOKENS) else read.problem(left.get(read.variant))
                if problem is not None:
                    raise ValueError(f"{variant}.{name} (layer {i}) {problem}")
        left[variant] = variants[variant].leaves | ({} if streams else {STREAM: 1})
    reads = {read for block in variants.values() for read in block.reads}
    for name, block in variants.items():
        if block.output == "aside" and (STREAM, name) not in {(read.name, read.variant) for read in reads}:
            raise ValueError(f"{name} leaves its output aside, and no layer reads the stream behind it")


def check_fits(variants: Mapping[str, Block], width: int, path: str) -> None:
    """Refuse a layer that cannot read, at this width, what a layer of another variant leaves."""
    for variant, block in variants.items():
        for name, branch in block.branches.items():
            for read in branch.sublayer.reads:
                for other in () if read.variant is None else variants[read.variant].sublayers:
                    if read.name in other.leaves and (problem := branch.sublayer.misfit(read, other, width)) is not None:
                        raise DescriptionError([Problem(f"{path}.{variant}.{name}", problem)])


def check_streams(streams: Streams | None, layers: Sequence[str], variants: Mapping[str, Block], *, own: bool) -> None:
    """Refuse layers that do not go with the streams, or with a single one; `own`: whether each has weights of its own."""
    for name, block in variants.items():
        problem = block.needs_streams if streams is None else streams.problem(block.steps)
        if problem is not None:
            raise ValueError(problem.format(repr(name)))
    if streams is not None:
        problem = streams.problem_of_layers([len(variants[name].steps) for name in layers], own=own)
        if problem is not None:
            raise ValueError(problem)


def check_sharers(layers: Sequence[str], shared: Mapping[str, Block]) -> None:
    """Refuse more layers of one set of weights than have weights of their own beside it; `shared`: the variants that share."""
    for variant, block in shared.items():
        for name, branch in block.branches.items():
            most, count = branch.sublayer.sharers, layers.count(variant)
            if most is not None and count > most:
                raise ValueError(f"{variant}.{name} has low-rank matrices for {most} layers, and {count} share its weights")


def reached(layers: Sequence[str], variants: Mapping[str, Block]) -> tuple[bool, ...]:
    """For each layer, by the name of its variant, whether a gradient passes it: from the next layer, or from one that reads it.

    A layer that detaches passes none to the layer before, as in truncated backpropagation (Williams & Peng 1990, doi
    10.1162/neco.1990.2.4.490), while values that layers read of others, by name, have theirs.
    """
    if not any(block.detaches for block in variants.values()):
        return (True,) * len(layers)
    found = {len(layers) - 1}
    for i in reversed(range(len(layers))):
        block = variants[layers[i]]
        if i in found:
            found |= set() if block.detaches or i == 0 else {i - 1}
            read = {each.variant for each in block.reads if each.variant is not None and not each.constant}
            found |= {max(j for j in range(i) if layers[j] == variant) for variant in read}
    return tuple(i in found for i in range(len(layers)))
