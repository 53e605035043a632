"""Projections in groups are block-diagonal matrices, and what does not fit them is refused."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import DescriptionError
from anyformer.parts import (
    Attention,
    FeedForward,
    HeadGroups,
    KeysFrom,
    NetworkGroups,
    Projection,
)
from anyformer.parts.pointwise.grouped_module import GroupedLinear
from anyformer.resizing.sizes import lattice
from anyformer.testing.around import decoder_of


def test_groups_are_blocks_of_a_matrix():
    grouped, x = GroupedLinear(6, 9, 3), torch.randn(2, 5, 6)
    torch.nn.init.normal_(grouped.weight), torch.nn.init.normal_(grouped.bias)
    whole = torch.block_diag(*grouped.weight.chunk(3))
    torch.testing.assert_close(grouped(x), x @ whole.T + grouped.bias)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: HeadGroups(), "leave grouped out"),
        (
            lambda: decoder_of(Attention(heads=4, project=Projection(grouped=HeadGroups(key=5)))),
            "grouped.key must divide the 24 inputs and the 24 out",
        ),
        (lambda: FeedForward(width=30, grouped=NetworkGroups(down=4)).check(24), "the 30 inputs and the 24 outputs"),
        (lambda: FeedForward(width=20, gated=False, grouped=NetworkGroups(gate=2)), "gated = true"),
        (lambda: Attention(heads=4, project=Projection(values="keys", grouped=HeadGroups(value=2))), "values = 'own'"),
        (
            lambda: Attention(heads=4, project=Projection(grouped=HeadGroups(key=2)), memory=KeysFrom(variant="other")),
            "leave grouped.key and grouped.value out",
        ),
    ],
)
def test_groups_that_do_not_fit_are_refused(make, says):
    with pytest.raises(DescriptionError, match=says):
        make()


def test_widths_to_choose_from_fit_the_groups():
    made = decoder_of(Attention(heads=4, head_width=6, project=Projection(grouped=HeadGroups(output=3))))
    assert all(width % 3 == 0 for width in lattice(made, "width")[:5])


def test_a_grouped_part_is_not_divided_and_has_no_layout():
    attention, network = (
        Attention(heads=4, project=Projection(grouped=HeadGroups(query=2))),
        FeedForward(width=20, grouped=NetworkGroups(up=2)),
    )
    assert attention.narrowed(24, 2) is network.narrowed(24, 2) is None
    assert attention.layout(24).heads is network.layout(24).network is None
