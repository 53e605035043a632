"""A smaller architecture with every kind of layer, and which of its layers stands for a layer of the whole.

The tensors that a layer saves depend on its kind and on the layers before it: a tensor that layers share is saved by the first.
So of every pair of neighbouring kinds the first two layers are traced, and the second stands for all later ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from anyformer.costs.saved.question import TraceQuestion
from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.order import write_order
from anyformer.parts.layers.stack import Stack

TRACED = 2
"""Traced layers of each pair of kinds."""
Pair = tuple[Hashable, Hashable]
"""The kinds of the layer before and of a layer."""


@dataclass(frozen=True)
class Reduced:
    """`layers`: numbers of the traced layers, by module; `like`: per layer, the traced layer that stands for it.

    `alike`: pairs of traced layers of variants taken for one kind; the trace must find the same tensors in both.
    """

    architecture: Architecture
    layers: Mapping[str, tuple[int, ...]]
    like: Mapping[str, str]
    alike: tuple[tuple[str, str], ...]


def reduced(question: TraceQuestion, *, merged: bool = True) -> Reduced:
    """The reduced architecture of a question.

    `merged`: variants that differ only in floats, none of them zero, are one kind: the smallest and largest are traced.
    """
    layers: dict[str, tuple[int, ...]] = {}
    like: dict[str, str] = {}
    alike: list[tuple[str, str]] = []
    made = question.architecture
    for name, stack in question.architecture.stacks.items():
        same, ends = _same(stack) if merged else ({}, {})
        pairs = list(pairwise((None, *_kinds(question, name, stack, same))))
        layers[name] = traced = tuple(_traced(pairs))
        latest: dict[Pair, int] = {}
        for i, pair in enumerate(pairs):
            latest |= {pair: i} if i in traced else {}
            like[f"{name}.layers.{i}"] = f"{name}.layers.{latest[pair]}"
        last = {same.get(stack.layers[i], stack.layers[i]): i for i in traced}
        of_end = [(i, ends[stack.layers[i]]) for i in traced if stack.layers[i] in ends]
        alike += [(f"{name}.layers.{i}", f"{name}.layers.{last[first]}") for i, first in of_end]
        length = question.architecture.shape_of(name, question.shape)
        small = _long_enough(_only(stack, [stack.layers[i] for i in traced]), length.length if length else 1)
        made = made.but(**{name: small}) if small != stack else made
    if made.mtp is not None:
        layers["mtp"] = tuple(range(made.mtp.depth))
        like |= {path: path for path in (f"mtp.layers.{i}" for i in layers["mtp"])}
    return Reduced(made, layers, like, tuple(alike))


def _traced(pairs: Sequence[Pair]) -> list[int]:
    """Numbers of the first two layers of each pair of kinds, and of the layers needed between them."""
    traced: list[int] = []
    count = Counter[Pair]()
    for i, pair in enumerate(pairs):
        if count[pair] == TRACED:
            continue
        missing = [i]
        while traced and missing[-1] - 1 > traced[-1] and pairs[missing[-1]][0] != pairs[traced[-1]][1]:
            missing.append(missing[-1] - 1)
        for j in reversed(missing):
            traced.append(j)
            count[pairs[j]] += 1
    return traced


def _kinds(question: TraceQuestion, name: str, stack: Stack, same: Mapping[str, str]) -> list[Hashable]:
    """The kind of each layer: its description, and its name where others read its keys or share its weights."""
    if stack.streams is not None and stack.streams.placed:
        return list(range(stack.depth))
    named = _named(stack)
    forms = {
        variant: (json.dumps(stack.variants[same.get(variant, variant)].plain()), variant if variant in named else None)
        for variant in stack.variants
    }
    if question.learning is None:
        return [forms[variant] for variant in stack.layers]
    kinds: list[Hashable] = []
    flows = question.learning.within_any(_before(question.architecture, name))
    for variant, owner in zip(stack.layers, stack.owners, strict=True):
        names, ranks = question.learning.within(f"{name}.layers.{owner}.")
        kinds.append((forms[variant], names, ranks, flows))
        flows = flows or bool(names or ranks)
    return kinds


def _before(architecture: Architecture, name: str) -> tuple[str, ...]:
    """Paths of the weights that the model reads before the layers of a stack."""
    stacks = list(architecture.stacks)
    later = stacks[stacks.index(name) + 1 :]
    own = (f"{name}.layers.", f"{name}.final_norm.", f"{name}.final_modulation.")
    after = (*own, "head.", *later, *(("latents.",) if later else ()))
    return tuple(path for path in architecture.folded_cost(Shape(source=1)).weights if not path.startswith(after))


def _named(stack: Stack) -> set[str]:
    """Variants whose name matters: others read their keys, or their layers share their weights."""
    reads = (read.variant for block in stack.variants.values() for read in block.reads)
    return {*stack.shared_weights, *(variant for variant in reads if variant is not None)}


def _same(stack: Stack) -> tuple[dict[str, str], dict[str, str]]:
    """The first variant like a variant, of variants taken for alike, and of variants traced to see whether they are.

    Variants are alike but for floats: sizes that grow with a float are between those at its smallest and its largest, so these
    two are traced. Zero often means none, as in dropout, and is unlike any other number.
    """
    groups: dict[str, dict[str, list[float]]] = {}
    for variant in dict.fromkeys(stack.layers):
        if variant not in _named(stack):
            floats: list[float] = []
            form = json.dumps(_without_floats(stack.variants[variant].plain(), floats))
            groups.setdefault(form, {})[variant] = floats
    same: dict[str, str] = {}
    ends: dict[str, str] = {}
    for group in groups.values():
        first, *others = group
        by_number = zip(*group.values(), strict=True)
        outer = {list(group)[column.index(pick(column))] for column in by_number for pick in (min, max)}
        inner = [variant for variant in others if variant not in outer]
        same |= dict.fromkeys(inner, first)
        ends |= {variant: first for variant in others if inner and variant in outer}
    return same, ends


def _without_floats(plain: Any, floats: list[float]) -> Any:
    """Plain data with every float but zero moved into a list."""
    if isinstance(plain, float) and plain:
        floats.append(plain)
        return "number"
    if isinstance(plain, Mapping):
        return {name: _without_floats(item, floats) for name, item in plain.items()}
    return [_without_floats(item, floats) for item in plain] if isinstance(plain, list) else plain


def _long_enough(stack: Stack, length: int) -> Stack:
    """The stack with a table of positions for the length at least: a call beyond the table is priced too."""
    if stack.position is None or stack.max_length is None or stack.max_length >= length:
        return stack
    return stack.but(position=stack.position.but(length=length))


def _only(stack: Stack, layers: Sequence[str]) -> Stack:
    """The stack with these layers alone."""
    variants: Named[Block] = Named({name: block for name, block in stack.variants.items() if name in layers})
    shared = tuple(name for name in stack.shared_weights if name in layers)
    return stack.but(variants=variants, order=write_order(layers), shared_weights=shared)
