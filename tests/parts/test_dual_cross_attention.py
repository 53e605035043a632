"""Dual cross-attention: what it refuses, and that its declared limits are real."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import DescriptionError
from anyformer.model import encoder_only
from anyformer.parts import ChannelCrossAttention, Embedding, SpatialCrossAttention, residual
from anyformer.parts.call.context import Context
from anyformer.plan import Plan
from anyformer.tally import Shape

SCALES = (4, 12, 8)
CHANNEL, SPATIAL = ChannelCrossAttention(scales=SCALES), SpatialCrossAttention(scales=SCALES)


@pytest.mark.parametrize("part", [ChannelCrossAttention, SpatialCrossAttention])
def test_heads_that_split_no_scale_are_refused(part):
    with pytest.raises(DescriptionError, match=r"heads must divide every scale, got heads = 4 and scales = \[4, 6\]"):
        part(scales=(4, 6), heads=4)


@pytest.mark.parametrize("sublayer", [CHANNEL, SPATIAL])
def test_scales_that_do_not_fill_the_width_are_refused(sublayer):
    with pytest.raises(DescriptionError, match=r"encoder.layer.*\[4, 12, 8\], together 24, and width = 25"):
        encoder_only(Embedding(vocab=9), 25, [residual(sublayer)])


@pytest.mark.parametrize(("sublayer", "packs"), [(CHANNEL, False), (SPATIAL, True)])
def test_only_channels_mix_the_documents_of_a_row(sublayer, packs):
    assert bool(sublayer.cost(24, Shape(), Plan()).breaks("packed")) != packs
    module, generator = sublayer.build(24, Plan(), ""), torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 1.0, generator=generator)
    x, positions = torch.randn(1, 7, 24, generator=generator), torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    packed = module(x, Context(positions, Plan(), aligned=False, padded=False, documents=documents))
    alone = [module(x[:, piece], Context(positions[:, piece], Plan())) for piece in (slice(0, 3), slice(3, 7))]
    assert torch.allclose(packed, torch.cat(alone, 1), rtol=1e-4, atol=1e-5) == packs
