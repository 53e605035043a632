"""Wirings of a block that are refused."""

from __future__ import annotations

import pytest

from anyformer.describe import DescriptionError, Named
from anyformer.parts import Block, Branch, FeedForward, HyperConnections, RMSNorm, Stack, Step

NETWORK = FeedForward(width=8)
LATE = Step(branches=Named(late=Branch(sublayer=NETWORK, added="after_block")))
PROMPT = Step(branches=Named(prompt=Branch(sublayer=NETWORK)))


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
