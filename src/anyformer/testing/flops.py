"""Declared FLOPs are those that torch counts."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from anyformer.model import Architecture, build
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.testing.inputs import B, T, inputs, shape, tokens
from anyformer.testing.traits import masks


def _both_passes(architecture: Architecture, plan: Plan, length: int) -> None:
    model = build(architecture, plan, device="meta").eval()  # a capacity that holds in training only is priced without
    with FlopCounterMode(display=False) as counter:
        output: Tensor = model(*(x.to("meta") for x in inputs(architecture, length=length)))
        forward = counter.get_total_flops()
        torch.autograd.backward(output.sum())
    declared = architecture.cost(shape(architecture, length), plan).total_flops
    counted = forward, counter.get_total_flops() - forward
    assert (declared.dense, declared.backward) == counted, (
        f"of {length} positions it declares {declared.dense} and {declared.backward} FLOPs forward and backward, torch counts "
        f"{counted[0]} and {counted[1]}"
    )


def declared_flops_are_counted(architecture: Architecture, kernel: Literal["plain", "sdpa"] = "sdpa") -> None:
    """Of the forward and the backward pass, difference 0."""
    _both_passes(architecture, Plan(attention=kernel), T)


def declared_flops_of_chunks_are_counted(architecture: Architecture) -> None:
    """Chunks of 3: one, several, and a last one that is not full."""
    for length in (3, 11, 12):
        _both_passes(architecture, Plan(chunk=3), length)


def declared_flops_of_a_decode_step_are_counted(architecture: Architecture) -> None:
    """The last of T positions; a window holds fewer keys than positions, so there dense is a bound."""
    model = build(architecture, device="meta").eval()
    state = model.state(B, T)
    model(tokens(architecture, length=T - 1).to("meta"), state=state)
    with FlopCounterMode(display=False) as counter:
        model(tokens(architecture, length=1).to("meta"), state=state)
    declared, counted = architecture.cost(Shape(batch=B, length=1, past=T - 1)).total_flops.dense, counter.get_total_flops()
    if any(mask.window for mask in masks(architecture)):
        assert counted <= declared, f"declares {declared}, torch counts {counted}"
    else:
        assert counted == declared, f"declares {declared}, torch counts {counted}"


def exact_flops_never_exceed_dense_ones(architecture: Architecture) -> None:
    """A mask takes pairs away."""
    flops = architecture.cost(shape(architecture)).total_flops
    assert 0 < flops.exact <= flops.dense
