"""Wirings of a block that are refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from anyformer.describe import DescriptionError, Named
from anyformer.parts import (
    AlternatingUpdates,
    Block,
    Branch,
    FeedForward,
    Gain,
    HyperConnections,
    RMSNorm,
    SequentialPrediction,
    Stack,
    Step,
)
from anyformer.parts.call.shared import STREAM
from anyformer.parts.layers.skip import Skip
from anyformer.parts.layers.skip_module import SkipModule

NETWORK = FeedForward(width=8)
LATE = Step(branches=Named(late=Branch(sublayer=NETWORK, added="after_block")))
PROMPT = Step(branches=Named(prompt=Branch(sublayer=NETWORK)))
INACTIVE = Step(branches=Named(inactive=Branch(sublayer=NETWORK)), residual="inactive")


def test_a_branch_of_the_last_step_passes_none():
    with pytest.raises(DescriptionError, match="late stands in the last step"):
        Block(steps=(PROMPT, LATE))
    assert Block(steps=(LATE, PROMPT)).late == ("late",)


def test_a_sum_of_no_branches_has_no_norm():
    with pytest.raises(DescriptionError, match="all of them are added after the block"):
        LATE.but(norm_branches=RMSNorm())


def test_streams_take_no_branch_after_the_block():
    with pytest.raises(DescriptionError, match=r"take norm_after, .* added out of 'layer'"):
        Stack(variants=Named(layer=Block(steps=(LATE, PROMPT))), order="layer*2", streams=HyperConnections())


@pytest.mark.parametrize("change", [{"gain": Gain()}, {"norm_after": RMSNorm()}, {"residual_scale": 2.0}])
def test_branches_of_the_other_streams_are_added_and_no_more(change):
    with pytest.raises(DescriptionError, match="leave norm_after, gain, residual_scale and added out"):
        INACTIVE.but(**change)


def test_branches_of_the_other_streams_come_last():
    with pytest.raises(DescriptionError, match="stand behind all others of a block"):
        Block(steps=(INACTIVE, PROMPT))


@pytest.mark.parametrize(
    ("streams", "steps", "reason"),
    [
        (None, (PROMPT, INACTIVE), "in 'layer' adds to streams that a layer does not compute"),
        (HyperConnections(), (PROMPT, INACTIVE), r"take norm_after, .* added out of 'layer'"),
        (AlternatingUpdates(), (INACTIVE,), "give 'layer' one before it"),
        (AlternatingUpdates(), (PROMPT.but(residual="detached"),), "take it out of 'layer'"),
    ],
)
def test_layers_that_do_not_go_with_the_streams(streams, steps, reason):
    with pytest.raises(DescriptionError, match=reason):
        Stack(variants=Named(layer=Block(steps=steps)), order="layer*2", streams=streams)


def test_later_tokens_are_predicted_from_one_stream():
    stack = Stack(variants=Named(layer=Block(steps=(PROMPT, INACTIVE))), order="layer*2", streams=AlternatingUpdates())
    with pytest.raises(ValueError, match="mtp: residual = 'inactive' in the layer"):
        SequentialPrediction(norm=RMSNorm()).check(8, stack)


@pytest.mark.parametrize("detached", [False, True])
def test_a_skip_that_is_a_constant_passes_no_gradient_back(detached):
    left = torch.ones(1, 2, 4, requires_grad=True)
    module = SkipModule(Skip(variant="slow", detached=detached), 4)
    read = module(torch.zeros(1, 2, 4), SimpleNamespace(shared={("slow", STREAM): left}))
    assert read.requires_grad != detached
