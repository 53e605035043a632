"""Tensor parallelism, read from descriptions: the sublayers that several processes divide, and how their weights are cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyformer.describe import change_all
from anyformer.model.architecture import Architecture
from anyformer.operations import Shape
from anyformer.parts.call.shared import SOURCE, TOKENS
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

_ANY = Shape(source=1)


@dataclass(frozen=True)
class Cut:
    """How a process holds a weight of a divided sublayer: a part along a dimension, or all of it (None).

    `share`: the factor with which it computes: a bias of the outputs, which every process adds, counts 1 / ways in each.
    """

    dimension: int | None
    share: float = 1.0


def cuts(whole: Sublayer, part: Sublayer, width: int, ways: int) -> dict[str, Cut]:
    """The cut of each weight of a sublayer of which each of `ways` processes computes `part`, by the weight's name."""
    parts = part.cost(width, _ANY, Plan()).weights
    made: dict[str, Cut] = {}
    for name, weight in whole.cost(width, _ANY, Plan()).weights.items():
        cut = cut_of(weight.shape, parts[name].shape)
        made[name] = Cut(cut, 1 / ways if cut is None and weight.writes else 1.0)
    return made


def cut_of(whole: tuple[int, ...], part: tuple[int, ...]) -> int | None:
    """The dimension in which a part of a tensor is smaller, None where it is all of it."""
    cut = [dimension for dimension, (all_of_it, own) in enumerate(zip(whole, part, strict=True)) if all_of_it != own]
    assert len(cut) < 2, f"a tensor of {whole} is cut along two dimensions: {part}"
    return cut[0] if cut else None


def divided_branches(stack: Stack, width: int, ways: int) -> Mapping[tuple[str, str], Sublayer]:
    """What each of `ways` processes computes of the branches that they divide, by (variant, branch).

    Keys and values that one layer leaves and others read are of some heads only where all of these are divided; a sublayer that
    reads a value of the whole stack, such as a score bias of all heads, is not.
    """
    found = {
        (variant, name): narrow
        for variant, block in stack.variants.items()
        for name, branch in block.branches.items()
        if not any(read.variant is None and read.name in stack.leaves for read in branch.sublayer.reads)
        and (narrow := branch.sublayer.narrowed(width, ways)) is not None
    }
    while undone := [key for linked in _linked(stack) if not linked <= found.keys() for key in linked if key in found]:
        for key in undone:
            found.pop(key, None)
    return found


def _linked(stack: Stack) -> list[set[tuple[str, str]]]:
    """The branches, two by two, of which one reads what the other leaves."""
    return [
        {(variant, name), (read.variant, other)}
        for variant, block in stack.variants.items()
        for name, branch in block.branches.items()
        for read in branch.sublayer.reads
        if read.variant is not None and read not in (SOURCE, TOKENS)
        for other, leaving in stack.variants[read.variant].branches.items()
        if read.name in leaving.sublayer.leaves
    ]


def divided_vocabulary(architecture: Architecture, ways: int) -> frozenset[str]:
    """The weights with a row per token, of which each of `ways` processes holds equally many; none if they cannot.

    They are divided together: a tied head reads its embedding's table.
    """
    head, sizes = architecture.head, architecture.vocabularies
    if head is None or head.outputs is not None or architecture.output_embedding.symbols is None:
        return frozenset()
    if any(size % ways for size in sizes.values()):
        return frozenset()
    own = {"head.weight": not head.tied, "head.own": head.own is not None, "head.bias": head.bias}
    own["head.gain"] = head.gain is not None
    return frozenset({f"{name}.weight" for name in sizes} | {name for name, given in own.items() if given})


def widest_ways(architecture: Architecture, processes: int, experts: int = 1) -> dict[tuple[str, str, str], int]:
    """For each branch that some of the processes can divide, the most ways that divide `processes`: (stack, variant, branch).

    `experts`: ways in which whole experts are divided; of their sublayers only processes / `experts` divide the features.
    """
    found: dict[tuple[str, str, str], int] = {}
    for place, stack in architecture.stacks.items():
        for ways in (ways for ways in range(processes, 1, -1) if processes % ways == 0):
            for variant, name in divided_branches(stack, architecture.width, ways):
                holds = experts > 1 and stack.variants[variant].branches[name].sublayer.routed(architecture.width, 1)
                if not holds or processes // experts % ways == 0:
                    found.setdefault((place, variant, name), ways)
    return found


def narrowed(architecture: Architecture, ways: Mapping[tuple[str, str, str], int]) -> Architecture:
    """The architecture with what one process computes of each branch that is divided in so many ways."""
    parts = {
        f"{place}.{variant}.{name}.sublayer": architecture.stacks[place]
        .variants[variant]
        .branches[name]
        .sublayer.narrowed(architecture.width, count)
        for (place, variant, name), count in ways.items()
    }
    return change_all(architecture, parts) if parts else architecture


def undivided(architecture: Architecture, ways: int) -> list[str]:
    """The branches that every one of `ways` processes computes whole: `decoder.layer.attention`; none where there is one."""
    found: list[str] = []
    if ways == 1:
        return found
    for place, stack in architecture.stacks.items():
        divided = divided_branches(stack, architecture.width, ways)
        found += [
            f"{place}.{variant}.{name}"
            for variant, block in stack.variants.items()
            for name in block.branches
            if (variant, name) not in divided
        ]
    return found
