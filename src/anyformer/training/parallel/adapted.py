"""Adapters of sublayers that processes divide: beside a part of a matrix stands the part of the adapter that belongs to it.

Of rows of the matrix (outputs) B has the same ones, and A is whole; of columns (inputs) A has the same ones, and B is whole, so
that the sum over processes that completes x W^T completes x A^T B^T too.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from anyformer.model.adapters import narrowed_beside
from anyformer.model.collectives import Group, added_up
from anyformer.model.narrowed import Cut, cut_of
from anyformer.model.transformer import Transformer
from anyformer.operations import Product, Shape
from anyformer.parts.call.noise import InputDropout
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.tuning.adapter import DOWN, OWN, LowRankAdapter
from anyformer.tuning.adapter_module import AdaptedLinear

_CHUNK = Shape(length=2, past=3, source=7)
"""A call in which new positions, all positions of the row, and those of its source are of different numbers."""


def divide_adapters(model: Transformer, whole: nn.Module, made: nn.Module, cuts: dict[str, Cut], group: Group) -> None:
    """Put the adapters of a sublayer beside the part `made` of it, and add to its `cuts` those of their parameters."""
    if not isinstance(model.adapter, LowRankAdapter):
        return
    for path, (before, linear) in narrowed_beside(model.adapter, whole, made).items():
        if linear.in_features != before.in_features:
            linear.divide_inputs(partial(added_up, group=group))
            if isinstance(linear.dropout, InputDropout):
                linear.dropout.divide(group.rank, group.size)
        for name in (name for name in OWN if name in linear._parameters):
            shapes = before.get_parameter(name).shape, linear.get_parameter(name).shape
            # What is multiplied into the output has the factor of the matrix.
            share = 1.0 if name == DOWN else cuts[f"{path}.weight"].share
            cuts[f"{path}.{name}"] = Cut(cut_of(*shapes), share)


def divide_dropouts(sublayer: nn.Module, description: Sublayer, width: int, group: Group) -> None:
    """Let the dropouts of adapters draw for this process's positions, where a map reads these alone."""
    own = of_positions(description, width)
    for path, module in sublayer.named_modules():
        if isinstance(module, AdaptedLinear) and isinstance(module.dropout, InputDropout) and f"{path}.weight" in own:
            module.dropout.vectors = group.rank


def of_positions(sublayer: Sublayer, width: int) -> set[str]:
    """The matrices of a sublayer that read one vector of each new position; others read all of the row, or its source."""
    return {
        f"{node.name(own)}.weight"
        for node in sublayer.cost(width, _CHUNK, Plan()).nodes()
        for own, work in node.tally.own_work.items()
        if isinstance(work, Product) and work.rows == _CHUNK.rows
    }
