"""Contracts of declared FLOPs, which are those that torch counts on the meta device."""

from __future__ import annotations

from typing import Literal

import torch

from anyformer.costs.flop_counter import MetaFlops
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.testing.inputs import B, T, inputs, shape, tokens
from anyformer.testing.models import without_values
from anyformer.testing.traits import masks


def _both_passes(architecture: Architecture, plan: Plan, length: int) -> None:
    model = without_values(architecture, plan)  # in evaluation: a capacity that holds in training only is priced without
    with MetaFlops() as counter:
        reports = Auxiliary()
        outputs = model.predictions(*(x.to("meta") for x in inputs(architecture, length=length)), auxiliary=reports)
        forward = counter.total
        index = [] if reports.index is None else [reports.index]
        torch.autograd.backward([*(output.sum() for output in outputs), *index])
    declared = architecture.trained_cost(shape(architecture, length), plan).total_flops
    counted = forward, counter.total - forward
    assert (declared.dense, declared.backward) == counted, (
        f"of {length} positions it declares {declared.dense} and {declared.backward} FLOPs forward and backward, torch counts "
        f"{counted[0]} and {counted[1]}"
    )


def declared_flops_are_counted(architecture: Architecture, kernel: Literal["plain", "sdpa"] = "sdpa") -> None:
    """The declared FLOPs of both passes of a training step, later tokens included, are exactly those that torch counts."""
    _both_passes(architecture, Plan(attention=kernel), T)


def declared_flops_of_chunks_are_counted(architecture: Architecture) -> None:
    """The declared FLOPs in chunks of 3 positions are those that torch counts: for one chunk, several, and a short last one."""
    for length in (3, 11, 12):
        _both_passes(architecture, Plan(chunk=3), length)


def declared_flops_of_a_decode_step_are_counted(architecture: Architecture) -> None:
    """The declared FLOPs of the last of T positions are those that torch counts; with a window they are a bound."""
    model = without_values(architecture)
    state = model.state(B, T)
    with torch.no_grad(), MetaFlops() as counter:
        model(tokens(architecture, length=T - 1).to("meta"), state=state)
        before = counter.total
        model(tokens(architecture, length=1).to("meta"), state=state)
    declared, counted = architecture.cost(Shape(batch=B, length=1, past=T - 1)).total_flops.dense, counter.total - before
    bounded = counted < declared and any(mask.window for mask in masks(architecture))
    assert bounded or counted == declared, f"declares {declared}, torch counts {counted}"


def exact_flops_never_exceed_dense_ones(architecture: Architecture) -> None:
    """FLOPs of the pairs that the mask allows are no more than those of all pairs."""
    flops = architecture.cost(shape(architecture)).total_flops
    assert 0 < flops.exact <= flops.dense
