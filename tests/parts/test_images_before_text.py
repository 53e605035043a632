"""Encoders of images: what does not fit is refused with the remedy; the middles of patches, whatever the size of an image."""

from __future__ import annotations

import math
import re

import pytest
import torch

from anyformer.describe import DescriptionError, InputError
from anyformer.model import Architecture, encoder_only
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Bidirectional,
    Centred,
    CrossAttention,
    Embedding,
    EncodedImages,
    FeedForward,
    GappedPosition,
    Head,
    LearnedPosition,
    Patches,
    RMSNorm,
    pre_norm,
    stack,
)

NORM, FEED = RMSNorm(), FeedForward(width=8)
SEES = pre_norm(NORM, Attention(heads=2, mask=Bidirectional()), FEED)
SEEN = EncodedImages(width=12, patches=Patches(size=2), stack=stack([SEES], position=LearnedPosition(length=4)))


def reads(source_width: int | None = None, seen: EncodedImages = SEEN, **more: object) -> Architecture:
    block = pre_norm(NORM, Attention(heads=2), CrossAttention(heads=2, source_width=source_width), FEED)
    table = Embedding(vocab=11)
    return Architecture(**{"width": 8, "embedding": seen, "decoder_embedding": table, "decoder": stack([block]), **more})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: reads(), "cross-attention reads 8 features of a source that has 12: set source_width"),
        (lambda: reads(12, SEEN.but(projected=True)), "reads 12 features of a source that has 8"),
        (lambda: encoder_only(SEEN, 8, [SEES]), "embedding gives 12 features, and the stream has 8: project them"),
        (lambda: GappedPosition(length=4, start=2, gap=3), "3 positions from 2 on have no vector"),
        (lambda: Head(outputs=3, pool="first", front=1), "front: first positions that a mean leaves out"),
        (lambda: Head(tied=True, pool="first_and_mean"), "gives 2 D features, and a tied table has no more than D"),
        (
            lambda: Architecture(
                width=8,
                embedding=Patches(size=2, coordinates=Centred()),
                decoder_embedding=Embedding(vocab=11),
                decoder=stack([SEES]),
                source="prefix",
            ),
            "embedding.coordinates: in front of a text patches are counted",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(DescriptionError, match=re.escape(words)):
        make()


def test_an_image_beyond_the_table_of_its_encoder_is_refused():
    model = build(reads(12)).eval()
    tokens = torch.ones(1, 3, dtype=torch.int64)
    assert model(torch.randn(1, 3, 4, 4), tokens).shape == (1, 3, 8)
    with pytest.raises(InputError, match="have 6 positions, and the position table of the encoder ends at 4"):
        model(torch.randn(1, 3, 4, 6), tokens)


def test_the_middles_of_patches_span_the_same_angles_whatever_the_size():
    small, large = (Centred().grid(rows, columns, torch.device("cpu")) for rows, columns in ((2, 3), (4, 6)))
    assert small.shape == (2, 6)
    assert torch.allclose(small[0], math.pi * torch.tensor([-1.0, -1, -1, 1, 1, 1]))
    assert torch.allclose(small[1, :3], 2 * math.pi * torch.tensor([-2 / 3, 0, 2 / 3]))
    means = large.view(2, 2, 2, 3, 2).mean((2, 4)).flatten(1)
    assert torch.allclose(means, small, atol=1e-6)
